package overlay

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Folder is an overlay that is built as it is, and with parts of it left out, to see what
// they are there for.
type Folder struct {
	fsys  *rooted
	below string
}

// Open opens the overlay in a folder. root is as for Read. What Read refuses is refused.
func Open(root, name string) (*Folder, error) {
	at, err := find(root, name)
	if err != nil {
		return nil, err
	}
	handle, err := os.OpenRoot(at.root)
	if err != nil {
		return nil, fmt.Errorf("open root: %w", err)
	}
	f := &Folder{fsys: newRooted(handle, at), below: inside(at.below)}
	if err := refuse(f.fsys, at.below); err != nil {
		handle.Close()
		return nil, err
	}
	return f, nil
}

// Close lets go of the folder.
func (f *Folder) Close() error { return f.fsys.root.Close() }

// Shown is a path as the user would type it.
func (f *Folder) Shown(file string) string { return f.fsys.shown(file) }

// Built is what a build came to.
type Built struct {
	Objects []Object
	// Read has the files that were read, as paths below the root.
	Read map[string]bool
}

// Warnings are those of Set, of all builds.
func (f *Folder) Warnings() []Warning { return f.fsys.warnings }

// Build builds the overlay. Where edit is not nil, it changes the kustomization in file
// first; it may only take parts out, since what it put in would not be checked.
func (f *Folder) Build(file string, edit func(*types.Kustomization)) (Built, error) {
	f.fsys.files, f.fsys.bytes, f.fsys.content = 0, 0, map[string][]byte{}
	fsys := &edited{originated: newOriginated(f.fsys), file: file, edit: edit, read: map[string]bool{}}
	objects, err := fsys.built(fsys, f.below)
	if err == nil {
		objects, err = bounded(f.fsys.shown(f.below), objects)
	}
	return Built{objects, fsys.read}, err
}

// edited shows Kustomize one kustomization with a change, and notes what it reads.
type edited struct {
	*originated
	file string
	edit func(*types.Kustomization)
	read map[string]bool
}

func (e *edited) ReadFile(name string) ([]byte, error) {
	e.read[inside(name)] = true
	raw, err := e.originated.ReadFile(name)
	if err != nil || e.edit == nil || inside(name) != e.file {
		return raw, err
	}
	var k types.Kustomization
	if err := k.Unmarshal(raw); err != nil {
		return nil, err
	}
	e.edit(&k)
	if k.MetaData == nil {
		// One that is empty is an error, and this is the only field that does nothing.
		k.MetaData = &types.ObjectMeta{Name: "edited"}
	}
	return yaml.Marshal(k)
}

// Kustomizations are those of the folder itself and of the folders in it, by their file,
// among the files that a build read.
func (f *Folder) Kustomizations(read map[string]bool) (map[string]types.Kustomization, error) {
	out := map[string]types.Kustomization{}
	for file := range read {
		if !f.holds(file) || !slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(file)) || !f.fsys.Exists(file) {
			continue
		}
		raw, err := f.fsys.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var k types.Kustomization
		if err := k.Unmarshal(raw); err != nil {
			return nil, fmt.Errorf("%s:1: %w", f.fsys.shown(file), err)
		}
		out[file] = k
	}
	return out, nil
}

func (f *Folder) holds(file string) bool {
	return f.below == "." || strings.HasPrefix(file, f.below+"/")
}

// Unread lists the files in the folder that a build did not read. Hidden ones and texts
// for people are left out.
func (f *Folder) Unread(read map[string]bool) ([]string, error) {
	var out []string
	err := fs.WalkDir(f.fsys.root.FS(), f.below, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p != f.below && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
			if strings.Count(p, "/")-strings.Count(f.below, "/") > limits.SourceDepth {
				return fmt.Errorf("%s: folders nest deeper than %d (limits.SourceDepth)", p, limits.SourceDepth)
			}
		case !read[p] && path.Ext(p) != ".md" && path.Ext(p) != ".txt":
			out = append(out, p)
		}
		return nil
	})
	return out, err
}
