package resultcache

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

func open(t *testing.T, dir string) *Cache {
	t.Helper()
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func holds(t *testing.T, c *Cache, key, want string) {
	t.Helper()
	got, err := c.Get([]byte(key))
	if err != nil || string(got) != want {
		t.Errorf("%s: %q, %v", key, got, err)
	}
}

func TestCache_GivesWhatWasPut(t *testing.T) {
	c := open(t, filepath.Join(t.TempDir(), "a", "b"))
	holds(t, c, "k", "")
	for _, v := range []string{"one", "another", ""} {
		if err := c.Put([]byte("k"), []byte(v)); err != nil {
			t.Fatal(err)
		}
		holds(t, c, "k", v)
	}
	holds(t, c, "kk", "")
	if err := c.Put([]byte("k"), make([]byte, limits.ResultBytes)); err == nil {
		t.Error("larger than the bound")
	}
}

// A key that goes over into the value is another key.
func TestUnpack_TellsTheKeyFromTheValue(t *testing.T) {
	raw := pack([]byte("key"), []byte("value"))
	for _, key := range []string{"", "k", "keyv", "keyvalue", "other"} {
		if got, err := unpack(raw, []byte(key)); err == nil {
			t.Errorf("%s: %q", key, got)
		}
	}
	for n := range raw {
		if _, err := unpack(raw[:n], []byte("key")); err == nil {
			t.Errorf("cut to %d bytes", n)
		}
		other := bytes.Clone(raw)
		other[n] ^= 1
		if _, err := unpack(other, []byte("key")); err == nil {
			t.Errorf("byte %d is another", n)
		}
	}
}

// Another version writes the same folder: what it left is no fault of anybody's.
func TestCache_HasNothingOfAnotherLayout(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	file := filepath.Join(dir, nameOf([]byte("k")))
	for layout, there := range map[string]bool{"sluice result 1\n": false, "sluice result 10\n": false, "sluice result \n": true, "sluice result 1": true, "other\n": true} {
		raw := append([]byte(layout), pack([]byte("k"), []byte("old"))[len(magic):]...)
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Get([]byte("k")); got != nil || (err != nil) != there {
			t.Errorf("%q: %q, %v", layout, got, err)
		}
	}
	if err := c.Put([]byte("k"), []byte("new")); err != nil {
		t.Fatal(err)
	}
	holds(t, c, "k", "new")
}

func TestCache_DropsTheOldest(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	for i := range limits.Results {
		if err := c.Put(fmt.Append(nil, i), []byte("v")); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(time.Duration(i-1000) * time.Minute)
		if err := os.Chtimes(filepath.Join(dir, nameOf(fmt.Append(nil, i))), then, then); err != nil {
			t.Fatal(err)
		}
	}
	draft, other := filepath.Join(dir, "x"+temporary), filepath.Join(dir, "yours")
	for _, f := range []string{draft, other} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-2 * limits.ResultDraft)
		if err := os.Chtimes(f, then, then); err != nil {
			t.Fatal(err)
		}
	}
	holds(t, c, "0", "v") // which makes it the one that was used last
	if err := c.Put([]byte("new"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	holds(t, c, "0", "v")
	holds(t, c, "1", "")
	holds(t, c, "2", "v")
	if _, err := os.Stat(draft); err == nil {
		t.Error("a draft that was left behind is there")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error("a file that is not ours is gone")
	}
}

func TestCache_IsSharedByProcesses(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			c, err := Open(dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			value := bytes.Repeat([]byte{byte('a' + i)}, 1<<16)
			for range 50 {
				if err := c.Put([]byte("k"), value); err != nil {
					t.Error(err)
				}
				got, err := c.Get([]byte("k"))
				if err != nil || len(got) != len(value) || bytes.Count(got, got[:1]) != len(got) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%d files, %v", len(left), err)
	}
}

func TestCache_LeavesADeletedFolderAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	c := open(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	holds(t, c, "k", "")
	if err := c.Put([]byte("k"), []byte("v")); err == nil {
		t.Error("it was put nowhere")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is back")
	}
}
