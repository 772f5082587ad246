package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/sluice-dev/sluice/operator/internal/collector"
)

// Seen is all that a Load looked at: what it gave can only be another where one of these is.
type Seen struct {
	// Root and Below are where the path led, and Folder says that it was a folder.
	Root, Below string
	Folder      bool
	// Kinds by path below the root: a file, a folder, another type, or why there is nothing.
	Kinds map[string]string
	// Lists by folder are the SHA-256 over the names and types in it.
	Lists map[string]string
	// Links by path below the root are whether it is a link itself.
	Links map[string]bool
	// Files have the SHA-256 of what was read.
	Files map[string]string
	// Blind says why something else was looked at too; "" for no.
	Blind string
}

const (
	kindFile   = "file"
	kindFolder = "folder"
	kindAbsent = "absent"
)

func kindOf(info fs.FileInfo, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return kindAbsent
	case err != nil:
		return err.Error()
	case info.IsDir():
		return kindFolder
	case info.Mode().IsRegular():
		return kindFile
	}
	return info.Mode().Type().String()
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// listSum counts names and types: what a file holds is looked at when it is read.
func listSum(entries []fs.DirEntry) string {
	h := sha256.New()
	for _, e := range entries {
		fmt.Fprintf(h, "%q %s\n", e.Name(), e.Type())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// stat is the one way to look at a path, so that every look is noted.
func (r *rooted) stat(p string) (fs.FileInfo, error) {
	info, err := r.root.Stat(p)
	kind := kindOf(info, err)
	if before, ok := r.seen.Kinds[p]; ok && before != kind {
		r.seen.Blind = p + " changed meanwhile"
	}
	r.seen.Kinds[p] = kind
	return info, err
}

// throughLink says whether a folder is a link or lies below one.
func (r *rooted) throughLink(folder string) bool {
	for p := folder; p != "."; p = path.Dir(p) {
		if r.seen.Links[p] = isLink(r.root, p); r.seen.Links[p] {
			return true
		}
	}
	return false
}

func isLink(root *os.Root, p string) bool {
	info, err := root.Lstat(p)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// tree is the file system with every look noted.
type tree struct{ *rooted }

// Stat implements fs.StatFS.
func (t tree) Stat(name string) (fs.FileInfo, error) { return t.stat(name) }

// ReadDir implements fs.ReadDirFS.
func (t tree) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(t.root.FS(), name)
	sum := listSum(entries)
	if before, ok := t.seen.Lists[name]; err != nil || ok && before != sum {
		t.seen.Blind = name + " could not be listed, or changed meanwhile"
	}
	t.seen.Lists[name] = sum
	return entries, err
}

// Open implements fs.FS.
func (t tree) Open(name string) (fs.File, error) {
	t.seen.Blind = name + " was opened"
	return t.root.FS().Open(name)
}

// all that was seen, with the files that were read.
func (r *rooted) all() *Seen {
	s := r.seen
	s.Files = make(map[string]string, len(r.content))
	for p, content := range r.content {
		s.Files[p] = sumOf(content)
		if s.Kinds[p] == kindFile {
			delete(s.Kinds, p) // which reading it shows too
		}
	}
	return &s
}

// Unchanged says whether a Load of the same path would look at the very same. It reads every
// file: a size and a time say nothing of what is in it.
func Unchanged(root, name string, seen *Seen) bool {
	at, err := find(root, name)
	if err != nil || seen.Blind != "" || at.root != seen.Root || at.below != seen.Below || at.folder != seen.Folder {
		return false
	}
	handle, err := os.OpenRoot(at.root)
	if err != nil {
		return false
	}
	defer handle.Close()
	for p, kind := range seen.Kinds {
		if kindOf(handle.Stat(p)) != kind {
			return false
		}
	}
	for p, link := range seen.Links {
		if isLink(handle, p) != link {
			return false
		}
	}
	for p, sum := range seen.Lists {
		if entries, err := fs.ReadDir(handle.FS(), p); err != nil || listSum(entries) != sum {
			return false
		}
	}
	return sameFiles(handle, seen.Files)
}

// sameFiles reads side by side.
func sameFiles(root *os.Root, files map[string]string) bool {
	names := make([]string, 0, len(files))
	for p := range files {
		names = append(names, p)
	}
	slices.Sort(names) // files of one folder one after the other
	var other atomic.Bool
	collector.Each(len(names), func(i int) {
		if other.Load() {
			return
		}
		raw, err := readRegular(root, names[i], root.Stat)
		if err != nil || sumOf(raw) != files[names[i]] {
			other.Store(true)
		}
	})
	return !other.Load()
}

// place is where a path leads: a folder or file below a root.
type place struct {
	root, below string
	folder      bool
}

func find(root, name string) (place, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return place{}, fmt.Errorf("%s: %w", name, err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return place{}, fmt.Errorf("read: %w", err)
	}
	at := place{folder: info.IsDir()}
	if at.root, at.below, err = locate(root, abs, at.folder); err != nil {
		return place{}, fmt.Errorf("%s: %w", name, err)
	}
	return at, nil
}

// Root is the folder that a Load of the path may not leave.
func Root(root, name string) (string, error) {
	at, err := find(root, name)
	return at.root, err
}
