package pin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

// owner says which files are the overlay's own.
type owner struct {
	folder string
	// others are the files and folders that kustomizations beside the overlay name.
	others map[string]bool
}

// newOwner looks through the set's root for kustomizations that use what lies in the
// overlay's folder.
func newOwner(set *overlay.Set) (*owner, error) {
	o := &owner{folder: set.Kustomization, others: map[string]bool{}}
	if o.folder == "" || !o.nested(set) {
		return o, nil
	}
	root, err := os.OpenRoot(set.Root)
	if err != nil {
		return nil, fmt.Errorf("open root: %w", err)
	}
	defer root.Close()
	seen := 0
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if seen++; seen > limits.RevisionFiles {
			return fmt.Errorf("%s: more than %d files (limits.RevisionFiles); give a --root that is closer", set.Shown("."), limits.RevisionFiles)
		}
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular() || set.Files[p] != nil || !slices.Contains(konfig.RecognizedKustomizationFileNames(), d.Name()):
			return nil
		}
		return o.read(root, p)
	})
	return o, err
}

// nested says whether there is anything in folders of the overlay's that others may name.
func (o *owner) nested(set *overlay.Set) bool {
	for file := range set.Files {
		if o.in(file) && path.Dir(file) != o.folder {
			return true
		}
	}
	return false
}

// in says that a file is below the overlay's folder.
func (o *owner) in(file string) bool {
	return o.folder == "" || o.folder == "." || strings.HasPrefix(file, o.folder+"/")
}

// read notes what a kustomization names. One that cannot be read names nothing: it does not
// build either.
func (o *owner) read(root *os.Root, file string) error {
	info, err := root.Stat(file)
	if err != nil || info.Size() > limits.SourceFileBytes {
		return err
	}
	raw, err := root.ReadFile(file)
	if err != nil {
		return err
	}
	if errors.Is(kustomize.CheckAliases(raw), kustomize.ErrExpands) {
		return nil
	}
	var k struct{ Resources, Bases, Components []string }
	if yaml.Unmarshal(raw, &k) != nil {
		return nil
	}
	for _, entry := range slices.Concat(k.Resources, k.Bases, k.Components) {
		o.others[path.Join(path.Dir(file), entry)] = true
	}
	return nil
}

// own says that a file is the overlay's alone: it is in the overlay's folder, and no other
// kustomization uses the folder within it that it is in.
func (o *owner) own(file string) bool {
	if !o.in(file) {
		return false
	}
	if o.others[file] {
		return false
	}
	for at := path.Dir(file); at != o.folder && at != "."; at = path.Dir(at) {
		if o.others[at] {
			return false
		}
	}
	return true
}
