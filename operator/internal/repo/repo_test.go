package repo_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/repo"
)

// desk is a work tree with one commit.
type desk struct {
	t   *testing.T
	dir string
}

func newDesk(t *testing.T) desk {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	d := desk{t, t.TempDir()}
	d.git("init", "-q", "-b", "main")
	d.git("config", "user.email", "a@example.com")
	d.git("config", "user.name", "a")
	d.write("prod/web.yaml", "a\n")
	d.write("ci/web.yaml", "a\n")
	d.git("add", "-A")
	d.git("commit", "-q", "-m", "first")
	return d
}

func (d desk) git(args ...string) string {
	d.t.Helper()
	out, err := exec.Command("git", append([]string{"-C", d.dir}, args...)...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (d desk) write(name, content string) {
	d.t.Helper()
	file := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d desk) read(name string) string {
	d.t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(raw)
}

// trap writes a program that leaves a trace when it runs.
func (d desk) trap(name string) {
	d.t.Helper()
	d.write(name, "#!/bin/sh\necho \"$0\" >> '"+d.trace()+"'\ncat\n")
	if err := os.Chmod(filepath.Join(d.dir, name), 0o755); err != nil {
		d.t.Fatal(err)
	}
}

func (d desk) trace() string { return filepath.Join(d.dir, ".git", "trace") }

// untouched fails if a trap ran.
func (d desk) untouched() {
	d.t.Helper()
	if raw, err := os.ReadFile(d.trace()); err == nil {
		d.t.Errorf("these ran: %s", raw)
	}
}

func (d desk) open() *repo.Repository {
	d.t.Helper()
	r, err := repo.Open(d.t.Context(), filepath.Join(d.dir, "prod"))
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// commit is one of prod/web.yaml.
func (d desk) commit(branch, content string) repo.Commit {
	return repo.Commit{Parent: d.git("rev-parse", "HEAD"), Branch: branch, Message: "promote web\n\nto prod\n", Files: map[string][]byte{"prod/web.yaml": []byte(content)}}
}

func TestCommit_OnANewBranchLeavesTheWorkTreeAsItIs(t *testing.T) {
	d := newDesk(t)
	d.write("ci/web.yaml", "not committed\n")
	d.git("add", "ci/web.yaml")
	d.write("new.yaml", "unknown\n")
	made, err := d.open().Commit(t.Context(), d.commit("promote-1", "b\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := d.git("rev-parse", "promote-1"); got != made {
		t.Errorf("the branch leads to %s, not to %s", got, made)
	}
	if got := d.git("show", "--format=%an %ae %s|%b", "--name-only", "promote-1"); got != "a a@example.com promote web|to prod\n\n\nprod/web.yaml" {
		t.Errorf("the commit: %q", got)
	}
	if got := d.git("show", "promote-1:prod/web.yaml"); got != "b" {
		t.Errorf("the file: %q", got)
	}
	if got := d.git("status", "--porcelain"); got != "M  ci/web.yaml\n?? new.yaml" || d.read("prod/web.yaml") != "a\n" {
		t.Errorf("the work tree: %q", got)
	}
}

func TestCommit_OnTheBranchThatIsCheckedOutTakesItsFilesAlong(t *testing.T) {
	d := newDesk(t)
	d.write("ci/web.yaml", "not committed\n")
	d.git("add", "ci/web.yaml")
	c := d.commit("main", "b\n")
	c.Author, c.Email = "Someone", "else@example.com"
	made, err := d.open().Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.git("rev-parse", "HEAD"); got != made || d.read("prod/web.yaml") != "b\n" {
		t.Errorf("checked out is %s and not %s: %q", got, made, d.read("prod/web.yaml"))
	}
	if got := d.git("status", "--porcelain"); got != "M  ci/web.yaml" {
		t.Errorf("the work tree: %q", got)
	}
	if got := d.git("log", "-1", "--format=%an %ae %cn %ce"); got != "Someone else@example.com Someone else@example.com" {
		t.Errorf("by %s", got)
	}
}

func TestCommit_OfManyAtOnceMakesOne(t *testing.T) {
	for name, branch := range map[string]string{"on the branch that is checked out": "main", "on a new branch": "promote"} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			const many = 8
			commits := make([]repo.Commit, many)
			for i := range many {
				commits[i] = d.commit(branch, fmt.Sprintf("%d\n", i))
			}
			made, failures := make([]string, many), make([]error, many)
			var all sync.WaitGroup
			for i := range many {
				all.Go(func() {
					r, err := repo.Open(t.Context(), d.dir)
					if err == nil {
						made[i], err = r.Commit(t.Context(), commits[i])
					}
					failures[i] = err
				})
			}
			all.Wait()
			winner := -1
			for i, err := range failures {
				switch {
				case err == nil && winner >= 0:
					t.Errorf("%d and %d were both made", winner, i)
				case err == nil:
					winner = i
				case !errors.Is(err, repo.ErrMoved) && !strings.Contains(err.Error(), "not committed"):
					t.Errorf("%d: %v", i, err)
				}
			}
			if winner < 0 {
				t.Fatalf("none was made: %v", failures)
			}
			if got := d.git("rev-list", "--count", branch); got != "2" {
				t.Errorf("the branch has %s commits", got)
			}
			if got := d.git("show", branch+":prod/web.yaml"); got != fmt.Sprint(winner) || d.git("rev-parse", branch) != made[winner] {
				t.Errorf("the branch has %q, and %d was told that it is made", got, winner)
			}
			if got := d.git("status", "--porcelain"); got != "" {
				t.Errorf("the work tree: %q", got)
			}
			if files, err := filepath.Glob(filepath.Join(d.dir, ".git", "*.lock*")); err != nil || len(files) > 0 {
				t.Errorf("left behind: %v %v", files, err)
			}
		})
	}
}

func TestCommit_RunsNothingOfTheRepository(t *testing.T) {
	d := newDesk(t)
	for _, hook := range []string{"reference-transaction", "pre-commit", "post-commit", "commit-msg", "prepare-commit-msg", "post-index-change", "pre-push", "post-checkout"} {
		d.trap(".git/hooks/" + hook)
		d.trap(".own/" + hook)
	}
	d.trap(".git/program")
	program := filepath.Join(d.dir, ".git", "program")
	d.git("config", "core.hooksPath", filepath.Join(d.dir, ".own"))
	d.git("config", "core.fsmonitor", program)
	d.git("config", "filter.evil.clean", program)
	d.git("config", "filter.evil.process", program)
	d.git("config", "filter.evil.required", "true")
	d.git("config", "diff.external", program)
	d.git("config", "diff.evil.textconv", program)
	d.git("config", "core.pager", program)
	d.write(".git/info/exclude", ".own\n")
	d.write(".git/info/attributes", "ci/* filter=evil diff=evil\n")
	os.Remove(d.trace())
	d.write("ci/web.yaml", "b\n") // what the index knows of it is no longer enough
	r := d.open()
	s, err := r.Status(t.Context())
	if err != nil || !slices.Equal(s.Dirty, []string{"ci/web.yaml"}) {
		t.Errorf("status: %+v: %v", s, err)
	}
	if out, err := r.Run(t.Context(), nil, "diff", "HEAD", "--"); err != nil || !strings.Contains(string(out), "+b") {
		t.Errorf("diff: %q: %v", out, err)
	}
	for _, branch := range []string{"promote", "main"} {
		c := repo.Commit{Parent: s.Head, Branch: branch, Message: "m", Files: map[string][]byte{"prod/web.yaml": []byte("b\n")}}
		if _, err := r.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	remote := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", "--bare", remote).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	if err := r.Push(t.Context(), remote, "promote"); err != nil {
		t.Error(err)
	}
	d.untouched()
}

func TestCommit_Refuses(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(desk)
		commit  func(*repo.Commit)
		says    string
	}{
		"a file with changes":        {func(d desk) { d.write("prod/web.yaml", "c\n") }, nil, "not committed"},
		"a file that is not there":   {nil, func(c *repo.Commit) { c.Files = map[string][]byte{"x.yaml": nil} }, "no regular file in commit"},
		"a path outside":             {nil, func(c *repo.Commit) { c.Files = map[string][]byte{"../x.yaml": nil} }, "outside repository"},
		"the same content":           {nil, func(c *repo.Commit) { c.Files["prod/web.yaml"] = []byte("a\n") }, "as they were"},
		"nothing":                    {nil, func(c *repo.Commit) { c.Files = nil }, "nothing to commit"},
		"an option for a branch":     {nil, func(c *repo.Commit) { c.Branch = "--all" }, "no name for a branch"},
		"a branch that is there":     {func(d desk) { d.git("branch", "promote") }, nil, "begin again"},
		"a branch that went on":      {func(d desk) { d.git("commit", "-q", "--allow-empty", "-m", "b") }, nil, "is checked out"},
		"an index that is locked":    {func(d desk) { d.write(".git/index.lock", "") }, func(c *repo.Commit) { c.Branch = "main" }, "index.lock is there"},
		"a file under a filter":      {func(d desk) { d.write(".git/info/attributes", "*.yaml filter=lfs\n") }, nil, `filter "lfs"`},
		"somebody who is not known":  {func(d desk) { d.git("config", "--unset", "user.email"); d.git("config", "user.useConfigOnly", "true") }, nil, "git commit-tree"},
		"a signature that fails":     {func(d desk) { d.git("config", "commit.gpgsign", "true"); d.git("config", "gpg.program", "false") }, nil, "git commit-tree"},
		"a link in place of a file":  {func(d desk) { d.replaceByLink() }, nil, "no regular file in commit"},
		"another branch's lock file": {func(d desk) { d.write(".git/refs/heads/promote.lock", "") }, nil, "begin again"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			commit := d.commit("promote", "b\n")
			if c.prepare != nil {
				c.prepare(d)
				if name == "a link in place of a file" {
					commit.Parent = d.git("rev-parse", "HEAD")
				}
			}
			if c.commit != nil {
				c.commit(&commit)
			}
			head, refs, status, content := d.git("rev-parse", "HEAD"), d.git("for-each-ref"), d.git("status", "--porcelain"), d.read("prod/web.yaml")
			_, err := d.open().Commit(t.Context(), commit)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error: %v", err)
			}
			if head != d.git("rev-parse", "HEAD") || refs != d.git("for-each-ref") || status != d.git("status", "--porcelain") || content != d.read("prod/web.yaml") {
				t.Error("something was changed all the same")
			}
		})
	}
}

func (d desk) replaceByLink() {
	d.git("rm", "-q", "prod/web.yaml")
	if err := os.MkdirAll(filepath.Join(d.dir, "prod"), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Symlink("../ci/web.yaml", filepath.Join(d.dir, "prod", "web.yaml")); err != nil {
		d.t.Fatal(err)
	}
	d.git("add", "-A")
	d.git("commit", "-q", "-m", "link")
}

func TestCommit_TakesTheBytesAsTheyAreAndConvertsThemForTheWorkTreeAlone(t *testing.T) {
	for _, c := range []struct{ name, attributes, content, checkedOut string }{
		{"line ends that Git converts", "*.yaml text eol=crlf", "b\n", "b\r\n"},
		{"line ends that were committed as they are", "*.yaml text=auto", "b\r\nc\r\n", "b\r\nc\r\n"},
		{"another encoding in the work tree", "*.yaml working-tree-encoding=ISO-8859-1", "é\n", "\xe9\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			d.write(".git/info/attributes", c.attributes+"\n")
			for _, branch := range []string{"promote", "main"} {
				if _, err := d.open().Commit(t.Context(), d.commit(branch, c.content)); err != nil {
					t.Fatal(err)
				}
				if got := d.git("cat-file", "-s", branch+":prod/web.yaml"); got != strconv.Itoa(len(c.content)) {
					t.Errorf("%s bytes on %s", got, branch)
				}
			}
			if got := d.read("prod/web.yaml"); got != c.checkedOut {
				t.Errorf("the work tree: %q", got)
			}
		})
	}
}

func TestCommit_LeavesAFileAloneThatGitIsToldNotToLookAt(t *testing.T) {
	for _, flag := range []string{"--assume-unchanged", "--skip-worktree"} {
		d := newDesk(t)
		head := d.git("rev-parse", "HEAD")
		d.git("update-index", flag, "prod/web.yaml")
		d.write("prod/web.yaml", "mine\n")
		_, err := d.open().Commit(t.Context(), d.commit("main", "b\n"))
		if err == nil || !strings.Contains(err.Error(), "prod/web.yaml: Git is told not to look at it") {
			t.Errorf("%s: %v", flag, err)
		}
		if d.read("prod/web.yaml") != "mine\n" || d.git("rev-parse", "main") != head {
			t.Errorf("%s: it was changed to %q", flag, d.read("prod/web.yaml"))
		}
	}
}

func TestCommit_IsSignedWhereTheUserSaysSo(t *testing.T) {
	d := newDesk(t)
	// As gpg would: a signature on the output, and the status that git looks for.
	d.write(".git/sign", "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\nprintf -- '-----BEGIN PGP SIGNATURE-----\\n\\nabc\\n-----END PGP SIGNATURE-----\\n'\n")
	if err := os.Chmod(filepath.Join(d.dir, ".git", "sign"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.git("config", "commit.gpgsign", "true")
	d.git("config", "gpg.program", filepath.Join(d.dir, ".git", "sign"))
	if _, err := d.open().Commit(t.Context(), d.commit("promote", "b\n")); err != nil {
		t.Fatal(err)
	}
	if got := d.git("cat-file", "-p", "promote"); !strings.Contains(got, "gpgsig -----BEGIN") {
		t.Errorf("the commit: %s", got)
	}
}

func TestStatus_SaysWhereTheWorkTreeStands(t *testing.T) {
	d := newDesk(t)
	r := d.open()
	s, err := r.Status(t.Context())
	if err != nil || s.Branch != "main" || s.Head != d.git("rev-parse", "HEAD") || len(s.Dirty) != 0 || r.Top() != d.dir {
		t.Errorf("%+v: %v", s, err)
	}
	d.write("prod/a b\n\"c.yaml", "new")
	d.git("rm", "-q", "ci/web.yaml")
	d.git("checkout", "-q", "--detach")
	s, err = r.Status(t.Context())
	if err != nil || s.Branch != "" || !slices.Equal(s.Dirty, []string{"ci/web.yaml", "prod/a b\n\"c.yaml"}) {
		t.Errorf("%+v: %v", s, err)
	}
	if got := s.In("ci/"); !slices.Equal(got, []string{"ci/web.yaml"}) || len(s.In(".")) != 2 || len(s.In("c")) != 0 {
		t.Errorf("in ci: %q", got)
	}
	empty := desk{t, t.TempDir()}
	empty.git("init", "-q", "-b", "trunk")
	if s, err = repo.At(empty.dir).Status(t.Context()); err != nil || s.Head != "" || s.Branch != "trunk" {
		t.Errorf("before the first commit: %+v: %v", s, err)
	}
}

func TestStatus_IsOfTheFolderWhateverAHookSetTheEnvironmentTo(t *testing.T) {
	d, other := newDesk(t), newDesk(t)
	t.Setenv("GIT_DIR", filepath.Join(other.dir, ".git"))
	t.Setenv("GIT_WORK_TREE", other.dir)
	t.Setenv("GIT_INDEX_FILE", filepath.Join(other.dir, "nothing"))
	s, err := d.open().Status(t.Context())
	if err != nil || len(s.Dirty) != 0 {
		t.Errorf("%+v: %v", s, err)
	}
}

func TestPush_SendsABranchAndOverwritesNothing(t *testing.T) {
	d := newDesk(t)
	remote := desk{t, t.TempDir()}
	remote.git("init", "-q", "--bare", "-b", "main")
	d.git("remote", "add", "origin", remote.dir)
	d.git("config", "remote.origin.push", "+refs/heads/*:refs/heads/*")
	r := d.open()
	if url, err := r.RemoteURL(t.Context(), "origin"); err != nil || url != remote.dir {
		t.Errorf("%q: %v", url, err)
	}
	first := d.git("rev-parse", "main")
	if err := r.Push(t.Context(), "origin", "main"); err != nil {
		t.Fatal(err)
	}
	if got := remote.git("for-each-ref", "--format=%(refname) %(objectname)"); got != "refs/heads/main "+first {
		t.Errorf("the remote has %q", got)
	}
	d.git("commit", "-q", "--amend", "-m", "another")
	err := r.Push(t.Context(), "origin", "main")
	if !errors.Is(err, repo.ErrRejected) || !strings.Contains(err.Error(), "non-fast-forward") {
		t.Errorf("error: %v", err)
	}
	if got := remote.git("rev-parse", "main"); got != first {
		t.Errorf("the remote's branch leads to %s", got)
	}
	for _, c := range [][2]string{{"--force", "main"}, {"origin", "+main"}, {"origin", ""}, {"ext::touch " + d.trace(), "main"}, {"nowhere", "main"}} {
		if err := r.Push(t.Context(), c[0], c[1]); err == nil {
			t.Errorf("%q was pushed", c)
		}
	}
	d.untouched()
}

func TestRepository_FetchesNoMissingObject(t *testing.T) {
	d := newDesk(t)
	d.git("config", "uploadpack.allowFilter", "true")
	partial := desk{t, filepath.Join(t.TempDir(), "partial")}
	d.git("clone", "-q", "--no-checkout", "--filter=blob:none", "file://"+d.dir, partial.dir)
	_, err := repo.At(partial.dir).Run(t.Context(), nil, "cat-file", "-p", "HEAD:prod/web.yaml")
	if err == nil || !strings.Contains(err.Error(), "partial clone") {
		t.Errorf("error: %v", err)
	}
	if got := partial.git("rev-list", "--objects", "--missing=print", "HEAD"); !strings.Contains(got, "?") {
		t.Errorf("the object was fetched:\n%s", got)
	}
}
