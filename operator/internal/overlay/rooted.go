package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// rooted is a read-only file system for Kustomize over one folder. Inside, the folder is
// "/". The kernel resolves every path below the folder's handle (os.Root), so neither
// ".." nor a symlink leads out, whatever a manifest says. Only regular files are opened:
// reading a FIFO or a device would hang or never end.
type rooted struct {
	root *os.Root
	// shown is a path below the root as the user would type it.
	shown func(string) string
	files int
	bytes int
	// content of every file that was read. The second look at one is at the same bytes: what
	// was checked is what is built.
	content map[string][]byte
	// seen is every other look.
	seen Seen
	// over is set once there were too many files. Kustomize does not pass on why a file
	// cannot be read.
	over error
	// warnings are what Kustomize warns of, each once however often it builds.
	warnings []Warning
}

// warn notes a warning of a file, or of a folder that is built, by its path below the root.
func (r *rooted) warn(below, text string) {
	w := Warning{File: r.shown(below), Root: r.seen.Root, Path: below, Text: text}
	if !slices.Contains(r.warnings, w) {
		r.warnings = append(r.warnings, w)
	}
}

func newRooted(root *os.Root, at place) *rooted {
	return &rooted{
		root: root, shown: fromHere(at.root), content: map[string][]byte{},
		seen: Seen{Root: at.root, Below: at.below, Folder: at.folder, Kinds: map[string]string{}, Lists: map[string]string{}, Links: map[string]bool{}},
	}
}

var errReadOnly = errors.New("the overlay's file system is read-only")

// inside turns a Kustomize path into one below the root.
func inside(name string) string {
	p := strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
	if p == "" {
		return "."
	}
	return p
}

func (r *rooted) Create(string) (filesys.File, error) { return nil, errReadOnly }
func (r *rooted) Mkdir(string) error                  { return errReadOnly }
func (r *rooted) MkdirAll(string) error               { return errReadOnly }
func (r *rooted) RemoveAll(string) error              { return errReadOnly }
func (r *rooted) WriteFile(string, []byte) error      { return errReadOnly }
func (r *rooted) Open(name string) (filesys.File, error) {
	return nil, fmt.Errorf("open %s: %w", name, errReadOnly)
}

func (r *rooted) IsDir(name string) bool {
	info, err := r.stat(inside(name))
	return err == nil && info.IsDir()
}

func (r *rooted) Exists(name string) bool {
	_, err := r.stat(inside(name))
	return err == nil
}

func (r *rooted) ReadDir(name string) ([]string, error) {
	entries, err := tree{r}.ReadDir(inside(name))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (r *rooted) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	p := inside(name)
	info, err := r.stat(p)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", name, err)
	}
	abs := "/" + strings.TrimPrefix(p, ".")
	if info.IsDir() {
		return filesys.ConfirmedDir(abs), "", nil
	}
	return filesys.ConfirmedDir(path.Dir(abs)), path.Base(abs), nil
}

func (r *rooted) Glob(pattern string) ([]string, error) {
	matches, err := fs.Glob(tree{r}, inside(pattern))
	if err != nil {
		return nil, err
	}
	for i := range matches {
		matches[i] = "/" + matches[i]
	}
	sort.Strings(matches)
	return matches, nil
}

// ReadFile reads a regular file of at most limits.SourceFileBytes, whose aliases are no
// bomb if it is YAML.
func (r *rooted) ReadFile(name string) ([]byte, error) {
	p := inside(name)
	if r.files++; r.files > limits.SourceFiles {
		r.over = fmt.Errorf("read %s: more than %d files (limits.SourceFiles); put several objects into a file, or check parts of it", r.shown(p), limits.SourceFiles)
		return nil, r.over
	}
	if raw, ok := r.content[p]; ok {
		return bytes.Clone(raw), nil
	}
	raw, err := readRegular(r.root, p, r.stat)
	if err != nil {
		if r.seen.Kinds[p] == kindFile {
			r.seen.Blind = p + " could not be read"
		}
		return nil, fmt.Errorf("read %s: %w", r.shown(p), err)
	}
	if err := kustomize.CheckAliases(raw); errors.Is(err, kustomize.ErrExpands) {
		return nil, fmt.Errorf("%s:1: %w", r.shown(p), err)
	}
	if r.bytes += len(raw); r.bytes > limits.SourceBytes {
		r.over = fmt.Errorf("read %s: more than %d bytes in all files (limits.SourceBytes)", r.shown(p), limits.SourceBytes)
		return nil, r.over
	}
	r.content[p] = bytes.Clone(raw)
	return raw, nil
}

// readRegular reads a regular file; stat is how to look at it before it is opened.
func readRegular(root *os.Root, p string, stat func(string) (fs.FileInfo, error)) ([]byte, error) {
	f, err := open(root, p, stat)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

// open looks before it opens, since opening a device can have effects, and again after:
// what is there may have been exchanged in between. Without O_NONBLOCK opening a FIFO
// would wait for a writer.
func open(root *os.Root, p string, stat func(string) (fs.FileInfo, error)) (*os.File, error) {
	info, err := stat(p)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	}
	f, err := root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func readBounded(from io.Reader, name string) ([]byte, error) {
	raw, err := readAll(from)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return raw, nil
}

func readAll(from io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(from, limits.SourceFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > limits.SourceFileBytes {
		return nil, fmt.Errorf("larger than %d bytes (limits.SourceFileBytes)", limits.SourceFileBytes)
	}
	return raw, nil
}

func (r *rooted) Walk(name string, walk filepath.WalkFunc) error {
	return fs.WalkDir(tree{r}, inside(name), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return walk("/"+p, nil, err)
		}
		info, err := d.Info()
		return walk("/"+p, info, err)
	})
}
