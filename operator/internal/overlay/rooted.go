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
	// over is set once there were too many files. Kustomize does not pass on why a file
	// cannot be read.
	over error
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
	info, err := r.root.Stat(inside(name))
	return err == nil && info.IsDir()
}

func (r *rooted) Exists(name string) bool {
	_, err := r.root.Stat(inside(name))
	return err == nil
}

func (r *rooted) ReadDir(name string) ([]string, error) {
	entries, err := fs.ReadDir(r.root.FS(), inside(name))
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
	info, err := r.root.Stat(p)
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
	matches, err := fs.Glob(r.root.FS(), inside(pattern))
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
		r.over = fmt.Errorf("read %s: more than %d files (limits.SourceFiles)", r.shown(p), limits.SourceFiles)
		return nil, r.over
	}
	if raw, ok := r.content[p]; ok {
		return bytes.Clone(raw), nil
	}
	f, err := r.open(p)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.shown(p), err)
	}
	defer f.Close()
	raw, err := readBounded(f, r.shown(p))
	if err != nil {
		return nil, err
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

// open looks before it opens, since opening a device can have effects, and again after:
// what is there may have been exchanged in between. Without O_NONBLOCK opening a FIFO
// would wait for a writer.
func (r *rooted) open(p string) (*os.File, error) {
	info, err := r.root.Stat(p)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	}
	f, err := r.root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
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
	raw, err := io.ReadAll(io.LimitReader(from, limits.SourceFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(raw) > limits.SourceFileBytes {
		return nil, fmt.Errorf("read %s: larger than %d bytes (limits.SourceFileBytes)", name, limits.SourceFileBytes)
	}
	return raw, nil
}

func (r *rooted) Walk(name string, walk filepath.WalkFunc) error {
	return fs.WalkDir(r.root.FS(), inside(name), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return walk("/"+p, nil, err)
		}
		info, err := d.Info()
		return walk("/"+p, info, err)
	})
}
