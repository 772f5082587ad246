// Package overlay reads what a user would commit: a Kustomize overlay, a folder or a file
// of manifests, or standard input. It reads below one root, runs nothing and fetches
// nothing.
package overlay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"

	"github.com/sluice-dev/sluice/operator/internal/collector"
	"github.com/sluice-dev/sluice/operator/internal/kustomize"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Object is one object and the file it came from, as the user would name it.
type Object struct {
	*unstructured.Unstructured
	File string
	// Path of that file in Set.Files.
	Path string
}

// Set is what one path holds.
type Set struct {
	Objects []Object
	// Files that were read for it, by their path below the root. They are as they were when
	// they were first read, and every later look was at the same bytes.
	Files map[string][]byte
	// Root is the absolute path of the folder that Files are below; "" for standard input.
	Root string
	// Kustomization is the folder below the root that was built, "" where none was.
	Kustomization string
	// Shown is a path of Files as the user would type it.
	Shown func(string) string
	// Seen is all that was looked at; nil for standard input.
	Seen *Seen
	// Warnings are what Kustomize warns of, each once.
	Warnings []Warning
}

// Warning is what Kustomize warns of, such as a deprecated field.
type Warning struct {
	// File that it is about, or folder that was built, as the user would name it.
	File string
	// Path of it below Root, the folder that the set was read in.
	Root, Path string
	Text       string
}

// String is the warning as it is told.
func (w Warning) String() string { return w.File + ": " + w.Text }

// Key is what a file of the set counts as: itself, or the overlay that is built of it and
// of others.
func (s *Set) Key(file string) string {
	if s.Kustomization != "" {
		file = s.Kustomization + "/"
	}
	return filepath.Join(s.Root, file) + "\x00" + s.Kustomization
}

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Read reads path: a folder with a kustomization is built, another folder is read file by
// file (.yaml, .yml, .json, folders within it included), a file is read as it is, and "-"
// reads stdin. root is the folder that bases and symlinks may not leave; empty means the
// Git work tree that holds path, or path itself where there is none.
func Read(root, name string, stdin io.Reader) ([]Object, error) {
	set, err := Load(root, name, stdin)
	if err != nil {
		return nil, err
	}
	return set.Objects, nil
}

// Load is Read, with the files that were read.
func Load(root, name string, stdin io.Reader) (*Set, error) {
	if name == Stdin {
		raw, err := readBounded(stdin, "standard input")
		if err != nil {
			return nil, err
		}
		objects, err := parse(Stdin, Stdin, raw)
		if err != nil {
			return nil, err
		}
		return &Set{Objects: objects, Files: map[string][]byte{Stdin: raw}, Shown: func(string) string { return Stdin }}, nil
	}
	at, err := find(root, name)
	if err != nil {
		return nil, err
	}
	handle, err := os.OpenRoot(at.root)
	if err != nil {
		return nil, fmt.Errorf("open root: %w", err)
	}
	defer handle.Close()
	return load(newRooted(handle, at), at)
}

// With is the set as it would be with other bytes in some of its files: it is read again,
// and what was read before is as it was then.
func (s *Set) With(files map[string][]byte) (*Set, error) {
	if s.Seen == nil {
		return nil, errors.New("standard input cannot be read again")
	}
	handle, err := os.OpenRoot(s.Root)
	if err != nil {
		return nil, fmt.Errorf("open root: %w", err)
	}
	defer handle.Close()
	at := place{root: s.Root, below: s.Seen.Below, folder: s.Seen.Folder}
	fsys := newRooted(handle, at)
	fsys.content = maps.Clone(s.Files)
	fsys.seen.Blind = "other bytes were put in place of those of files"
	for file, raw := range files {
		if _, ok := s.Files[file]; !ok {
			return nil, fmt.Errorf("%s was not read before", s.Shown(file))
		}
		if err := kustomize.CheckAliases(raw); errors.Is(err, kustomize.ErrExpands) {
			return nil, fmt.Errorf("%s:1: %w", s.Shown(file), err)
		}
		fsys.content[file] = raw
	}
	return load(fsys, at)
}

func load(fsys *rooted, at place) (_ *Set, err error) {
	set := &Set{Files: fsys.content, Root: at.root, Shown: fsys.shown}
	if fsys.IsDir(at.below) && kustomizationFile(fsys, at.below) != "" {
		set.Kustomization = inside(at.below)
	}
	if set.Objects, err = read(fsys, at.below); err != nil {
		return nil, err
	}
	set.Seen, set.Warnings = fsys.all(), fsys.warnings
	return set, nil
}

// fromHere names files below root the way the user would type them.
func fromHere(root string) func(string) string {
	here, err := os.Getwd()
	if err != nil {
		return func(file string) string { return file }
	}
	return func(file string) string {
		whole := filepath.Join(root, filepath.FromSlash(file))
		if relative, err := filepath.Rel(here, whole); err == nil && !strings.HasPrefix(relative, "..") {
			return relative
		}
		return whole
	}
}

func read(fsys *rooted, below string) ([]Object, error) {
	switch {
	case slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(below)) && !fsys.IsDir(below):
		return nil, fmt.Errorf("%s is a kustomization: name its folder, to have it built", fsys.shown(below))
	case !fsys.IsDir(below):
		raw, err := fsys.ReadFile(below)
		if err != nil {
			return nil, err
		}
		return parse(fsys.shown(below), inside(below), raw)
	case kustomizationFile(fsys, below) != "":
		return build(fsys, below)
	default:
		return readFolder(fsys, below)
	}
}

// locate finds the root and the path below it. Without a root given it is looked for from
// the path as it is written: a symlink in a repository must not take its target's
// surroundings for the root.
func locate(root, abs string, isDir bool) (string, string, error) {
	resolved, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", "", err
	}
	if root == "" {
		root = workTree(abs, isDir)
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", "", fmt.Errorf("root: %w", err)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return "", "", fmt.Errorf("root: %w", err)
	}
	below, err := filepath.Rel(root, resolved)
	if err != nil || below == ".." || strings.HasPrefix(below, ".."+string(filepath.Separator)) {
		return "", "", fmt.Errorf("it is %s, which is not inside the root %s", resolved, root)
	}
	return root, filepath.ToSlash(below), nil
}

// workTree is the closest folder upwards that holds .git; without one, the folder itself:
// climbing further could read anything on the machine.
func workTree(abs string, isDir bool) string {
	start := abs
	if !isDir {
		start = filepath.Dir(abs)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return start
		}
	}
}

func readFolder(fsys *rooted, below string) ([]Object, error) {
	files, err := manifests(fsys, inside(below))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fsys.shown(below), err)
	}
	var objects []Object
	for _, file := range files {
		raw, err := fsys.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := parse(fsys.shown(file), file, raw)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return bounded(fsys.shown(below), objects)
}

// manifests lists the files of a plain folder, as kubectl and Argo CD would apply them:
// hidden folders are no place to hide in. Only those at the top of the root are left out,
// which are of tools such as .github, and Git's own. A folder that is a kustomization is an
// error: its files are not what would be applied.
func manifests(fsys *rooted, top string) ([]string, error) {
	var files []string
	err := fs.WalkDir(tree{fsys}, top, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p == top:
			return nil
		case d.IsDir() && (d.Name() == ".git" || strings.HasPrefix(p, ".") && !strings.Contains(p, "/")):
			return fs.SkipDir
		case d.IsDir() && strings.Count(p, "/")-strings.Count(top, "/") > limits.SourceDepth:
			return fmt.Errorf("%s: folders nest deeper than %d (limits.SourceDepth)", p, limits.SourceDepth)
		case d.IsDir() && kustomizationFile(fsys, p) != "":
			return fmt.Errorf("%s is a kustomization: name it itself, or move it out of this folder", fsys.shown(p))
		case d.IsDir():
			return nil
		}
		switch path.Ext(p) {
		case ".yaml", ".yml", ".json":
			files = append(files, p)
		}
		return nil
	})
	sort.Strings(files)
	return files, err
}

func build(fsys *rooted, below string) ([]Object, error) {
	if err := refuse(fsys, below); err != nil {
		return nil, err
	}
	before := fsys.files
	if objects, err := plain(fsys, inside(below)); err == nil {
		return bounded(fsys.shown(below), objects)
	}
	fsys.files, fsys.over = before, nil
	shown := newOriginated(fsys)
	objects, err := shown.built(shown, inside(below))
	if err != nil {
		return nil, err
	}
	return bounded(fsys.shown(below), objects)
}

func bounded(name string, objects []Object) ([]Object, error) {
	if len(objects) > limits.Objects {
		return nil, fmt.Errorf("%s: %d objects, more than %d (limits.Objects)", name, len(objects), limits.Objects)
	}
	return objects, nil
}

func fromResources(fsys *originated, built resmap.ResMap, below string) ([]Object, error) {
	resources := built.Resources()
	objects := make([]Object, len(resources))
	failures := make([]error, len(resources))
	// Most of it is JSON, written and read again: each core takes its share.
	collector.Each(len(resources), func(i int) { objects[i], failures[i] = fromResource(fsys, resources[i], below) })
	return objects, errors.Join(failures...)
}

func fromResource(fsys *originated, res *resource.Resource, below string) (Object, error) {
	u, annotation, err := fsys.content(res)
	if err != nil {
		return Object{}, err
	}
	file := cmp.Or(fsys.fileOf(annotation, u.GetKind(), u.GetName()), below)
	return Object{Unstructured: u, File: fsys.shown(file), Path: file}, nil
}
