package revision_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/revision"
)

// repo is a repository with one commit.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T) repo {
	t.Helper()
	r := repo{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	r.git("config", "user.email", "a@example.com")
	r.git("config", "user.name", "a")
	return r
}

func (r repo) git(args ...string) {
	r.t.Helper()
	if out, err := exec.Command("git", append([]string{"-C", r.dir}, args...)...).CombinedOutput(); err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (r repo) write(name, content string) {
	r.t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r repo) commit(tag string) {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "a")
	r.git("tag", tag)
}

func (r repo) unpack(dir, rev, below string) string {
	r.t.Helper()
	_, target, remove, err := revision.Unpack(r.t.Context(), filepath.Join(r.dir, dir), rev, below)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(remove)
	return target
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestUnpack_IsWhatWasCommittedWhateverAttributesSay(t *testing.T) {
	r := newRepo(t)
	r.write(".gitattributes", "*.yaml export-ignore eol=crlf ident filter=evil\n")
	r.git("config", "filter.evil.smudge", "touch "+filepath.Join(r.dir, "ran"))
	r.write("a/b c.yaml", "$Id$\nold\n")
	r.write("a/empty.yaml", "")
	if err := os.Symlink("/etc", filepath.Join(r.dir, "a", "out")); err != nil {
		t.Fatal(err)
	}
	r.commit("v1")
	r.write("a/b c.yaml", "new\n")
	for _, from := range []struct{ dir, below string }{{"", "a"}, {"a", "a"}, {"a", "."}, {"a", "./"}, {"", "./a"}} {
		target := r.unpack(from.dir, "v1", from.below)
		if got := read(t, filepath.Join(target, "b c.yaml")); got != "$Id$\nold\n" {
			t.Errorf("%v: %q", from, got)
		}
		if got := read(t, filepath.Join(target, "empty.yaml")); got != "" {
			t.Errorf("%v: %q", from, got)
		}
		if link, err := os.Readlink(filepath.Join(target, "out")); err != nil || link != "/etc" {
			t.Errorf("%v: the link leads to %q: %v", from, link, err)
		}
	}
	if _, err := os.Stat(filepath.Join(r.dir, "ran")); err == nil {
		t.Error("the repository's filter ran")
	}
}

func TestUnpack_LeavesTooLargeFilesToTheReader(t *testing.T) {
	r := newRepo(t)
	r.write("big", strings.Repeat("a", limits.SourceFileBytes+10))
	r.write("small", "b")
	r.commit("v1")
	target := r.unpack("", "v1", ".")
	info, err := os.Stat(filepath.Join(target, "big"))
	if err != nil || info.Size() != limits.SourceFileBytes+1 {
		t.Errorf("size %v: %v", info, err)
	}
	if got := read(t, filepath.Join(target, "small")); got != "b" {
		t.Errorf("%q", got)
	}
}

func TestUnpack_SaysWhyItCannot(t *testing.T) {
	r := newRepo(t)
	r.write("a", "b")
	r.commit("v1")
	for name, c := range map[string]struct{ dir, rev, below, says string }{
		"a revision that there is not": {r.dir, "v2", ".", `no revision "v2"`},
		"an option for a revision":     {r.dir, "--output=x", ".", "not a revision"},
		"a path outside":               {r.dir, "v1", "../a", "outside the repository"},
		"no repository":                {t.TempDir(), "v1", ".", "not a git repository"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := revision.Unpack(t.Context(), c.dir, c.rev, c.below)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error: %v", err)
			}
		})
	}
}

func TestSplit_TakesAnExistingFileForAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a:b", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a:b": false, "main:b": true, "b": false, ":b": false, "main:": true} {
		if _, _, ok := revision.Split(name); ok != want {
			t.Errorf("%q: %t", name, ok)
		}
	}
}
