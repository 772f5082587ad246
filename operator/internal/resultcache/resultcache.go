// Package resultcache keeps results in a folder, by everything that they depend on. What
// is in the folder is never believed for being there: an entry has its own checksum and
// its whole key, and only entries count that nobody but the user could have written. It
// may be deleted at any time, and processes may share it.
package resultcache

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// magic starts every entry; another layout, of entries or of what is kept in them, gets
// another number.
const magic = "sluice result 2\n"

// another is how entries of other layouts start.
var another = regexp.MustCompile(`^sluice result [0-9]+\n`)

const (
	suffix    = ".result"
	temporary = ".writing"
)

// Cache is one folder.
type Cache struct{ root *os.Root }

// Open opens the folder, and makes it where it is not there. It refuses one that others
// may write into.
func Open(dir string) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// The link itself: where it leads may change between two looks.
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if info, err = root.Stat("."); err == nil {
		err = own(info)
	}
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &Cache{root: root}, nil
}

// Close lets go of the folder.
func (c *Cache) Close() error { return c.root.Close() }

func nameOf(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:]) + suffix
}

// Get returns what was put under the key; nil, and no error, when there is nothing, or an
// entry of another layout. The error says why an entry that is there does not count.
func (c *Cache) Get(key []byte) ([]byte, error) {
	name := nameOf(key)
	info, err := c.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // opening it may have effects, or wait
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	f, err := c.root.OpenFile(name, os.O_RDONLY|nonblocking, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err == nil {
		err = own(info)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	raw, err := io.ReadAll(io.LimitReader(f, limits.ResultBytes+1))
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(raw, []byte(magic)) && another.Match(raw) {
		return nil, nil
	}
	value, err := unpack(raw, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	now := time.Now()
	// For who is the oldest; that it cannot be noted keeps nothing from being right.
	_ = c.root.Chtimes(name, now, now)
	return value, nil
}

// pack is checksum, length of the key, key and value behind the magic.
func pack(key, value []byte) []byte {
	body := binary.BigEndian.AppendUint64(nil, uint64(len(key)))
	body = append(append(body, key...), value...)
	sum := sha256.Sum256(body)
	return append(append([]byte(magic), sum[:]...), body...)
}

func unpack(raw, key []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(raw, []byte(magic))
	if !ok || len(rest) < sha256.Size+8 || len(raw) > limits.ResultBytes {
		return nil, errors.New("it is cut off, too large, or no result")
	}
	body := rest[sha256.Size:]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], rest[:sha256.Size]) {
		return nil, errors.New("its checksum is another")
	}
	value, ok := bytes.CutPrefix(body[8:], key)
	if binary.BigEndian.Uint64(body) != uint64(len(key)) || !ok {
		return nil, errors.New("it is of another key")
	}
	return value, nil
}

// Put keeps a value, and drops the oldest where there are too many. Others see all of it
// or nothing.
func (c *Cache) Put(key, value []byte) error {
	raw := pack(key, value)
	if len(raw) > limits.ResultBytes {
		return fmt.Errorf("%d bytes, more than %d (limits.ResultBytes)", len(raw), limits.ResultBytes)
	}
	name := nameOf(key)
	draft := strings.TrimSuffix(name, suffix) + rand.Text() + temporary
	f, err := c.root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Close()); err == nil {
		err = c.root.Rename(draft, name)
	}
	if err != nil {
		return errors.Join(err, c.root.Remove(draft))
	}
	return c.trim()
}

// trim leaves the entries that were used last, and drafts that somebody may still write.
func (c *Cache) trim() error {
	entries, err := fs.ReadDir(c.root.FS(), ".")
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		ours := filepath.Ext(e.Name()) == suffix || filepath.Ext(e.Name()) == temporary
		// One that another process has dropped meanwhile is none.
		if info, err := e.Info(); err == nil && ours && info.Mode().IsRegular() {
			files = append(files, info)
		}
	}
	for _, name := range surplus(files, time.Now()) {
		if err := c.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
