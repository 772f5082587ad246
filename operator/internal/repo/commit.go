package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Commit is a change of files that are there already.
type Commit struct {
	// Parent is the commit that the files were read from, as Status.Head has it. The branch
	// has to be there still when the commit is made.
	Parent string
	// Branch to make, or the one that is checked out.
	Branch string
	// Message, its first line the subject.
	Message string
	// Files by their path below Top, each with its new content as a commit has it: what the
	// work tree makes of it, such as other line ends, is Git's to say.
	Files map[string][]byte
	// Author and Email of who commits; "" leaves them to Git's configuration.
	Author, Email string
}

// ErrMoved says that somebody else was quicker.
var ErrMoved = errors.New("the branch was moved or made by somebody else in the meantime")

// Commit makes a commit with other contents of some files, and returns its name. Of two
// at once from the same parent on the same branch one is made; the other is ErrMoved, and
// changes nothing. The index and the work tree are only touched where the branch is
// checked out, at the end, and there in the files alone, which have to be as the parent
// has them. The user's settings for signing count (commit.gpgsign); hooks do not run.
func (r *Repository) Commit(ctx context.Context, c Commit) (string, error) {
	if len(c.Files) == 0 {
		return "", errors.New("commit: there is nothing to commit")
	}
	if len(c.Files) > limits.PromotedFiles {
		return "", fmt.Errorf("commit: %d files, more than %d (limits.PromotedFiles)", len(c.Files), limits.PromotedFiles)
	}
	if _, err := r.Run(ctx, nil, "check-ref-format", "--branch", c.Branch); err != nil || strings.HasPrefix(c.Branch, "-") {
		return "", fmt.Errorf("%q is no name for a branch", c.Branch)
	}
	now, err := r.Status(ctx)
	if err != nil {
		return "", err
	}
	if c.Parent == "" || now.Head != c.Parent {
		return "", fmt.Errorf("commit on %.12q: %w: %.12q is checked out", c.Parent, ErrMoved, now.Head)
	}
	if err := now.clean(c); err != nil {
		return "", err
	}
	entries, err := r.entries(ctx, c)
	if err != nil {
		return "", err
	}
	made, err := r.make(ctx, c, entries)
	if err != nil {
		return "", err
	}
	if now.Branch == c.Branch {
		return r.land(ctx, c, entries, made)
	}
	if err := r.move(ctx, c.Branch, made, ""); err != nil {
		return "", err
	}
	return made, nil
}

// clean refuses files that were changed already: their new contents are made of what is
// in the work tree, and would take along what nobody committed.
func (s Status) clean(c Commit) error {
	for file := range c.Files {
		if slices.Contains(s.Dirty, file) {
			return fmt.Errorf("%s: it has changes that are not committed: commit or stash them first", file)
		}
	}
	return nil
}

// entry is a file as a tree has it.
type entry struct{ mode, object string }

// entries stores the new contents.
func (r *Repository) entries(ctx context.Context, c Commit) (map[string]entry, error) {
	out := map[string]entry{}
	for _, file := range slices.Sorted(maps.Keys(c.Files)) {
		said, err := r.Run(ctx, nil, "ls-tree", "-z", "--full-tree", c.Parent, "--", file)
		if err != nil {
			return nil, err
		}
		head, name, _ := strings.Cut(strings.TrimSuffix(string(said), "\x00"), "\t")
		fields := strings.Fields(head)
		if len(fields) != 3 || name != file || fields[0] != "100644" && fields[0] != "100755" {
			return nil, fmt.Errorf("%s: it is no regular file in commit %.12s: commit it first, and not as a link", file, c.Parent)
		}
		if err := r.plain(ctx, file); err != nil {
			return nil, err
		}
		object, err := r.Hash(ctx, c.Files[file], "-w")
		if err != nil {
			return nil, err
		}
		out[file] = entry{mode: fields[0], object: object}
	}
	return out, nil
}

// Hash is the name of the blob that has a content, which -w among the options stores. It
// was read from a commit, and is not converted: what was judged is what is committed.
func (r *Repository) Hash(ctx context.Context, content []byte, options ...string) (string, error) {
	out, err := r.Run(ctx, bytes.NewReader(content), append([]string{"hash-object", "--stdin", "--no-filters"}, options...)...)
	return strings.TrimSpace(string(out)), err
}

// plain refuses a file that a filter makes another one of: the filter is not run, and what
// it keeps out of the repository would get into it.
func (r *Repository) plain(ctx context.Context, file string) error {
	out, err := r.Run(ctx, nil, "check-attr", "-z", "filter", "--", file)
	if err != nil {
		return err
	}
	fields := strings.Split(string(out), "\x00")
	if len(fields) < 3 {
		return fmt.Errorf("git check-attr: %q is not understood", out)
	}
	if value := fields[2]; value != "unspecified" && value != "unset" {
		return fmt.Errorf("%s: .gitattributes has the filter %q for it, and Sluice runs no filter: take it out there, or commit by hand", file, value)
	}
	return nil
}

// make makes the commit; nothing leads to it yet.
func (r *Repository) make(ctx context.Context, c Commit, entries map[string]entry) (string, error) {
	folder, err := os.MkdirTemp("", "sluice-index-")
	if err != nil {
		return "", fmt.Errorf("folder for an index: %w", err)
	}
	defer os.RemoveAll(folder)
	index := []string{"GIT_INDEX_FILE=" + filepath.Join(folder, "index")}
	if _, err := r.with(ctx, index, nil, "read-tree", c.Parent); err != nil {
		return "", err
	}
	if _, err := r.with(ctx, index, info(entries), "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	tree, err := r.with(ctx, index, nil, "write-tree")
	if err != nil {
		return "", err
	}
	before, err := r.Line(ctx, "rev-parse", "--verify", "--end-of-options", c.Parent+"^{tree}")
	if err != nil {
		return "", err
	}
	if tree == before {
		return "", errors.New("commit: the files are as they were")
	}
	args := []string{"commit-tree", "-p", c.Parent, "-F", "-"}
	if sign, err := r.Line(ctx, "config", "--type=bool", "--get", "commit.gpgSign"); err == nil && sign == "true" {
		args = append(args, "-S")
	} else if err != nil && !None(err) {
		return "", err
	}
	var who []string
	if c.Author != "" {
		who = append(who, "GIT_AUTHOR_NAME="+c.Author, "GIT_COMMITTER_NAME="+c.Author)
	}
	if c.Email != "" {
		who = append(who, "GIT_AUTHOR_EMAIL="+c.Email, "GIT_COMMITTER_EMAIL="+c.Email)
	}
	out, err := r.run(ctx, limits.GitSign, "limits.GitSign", who, strings.NewReader(c.Message), append(args, tree)...)
	return strings.TrimSpace(string(out)), err
}

func (r *Repository) with(ctx context.Context, env []string, in []byte, args ...string) (string, error) {
	out, err := r.run(ctx, limits.GitCall, "limits.GitCall", env, bytes.NewReader(in), args...)
	return strings.TrimSpace(string(out)), err
}

// info is what update-index takes.
func info(entries map[string]entry) []byte {
	var out bytes.Buffer
	for _, file := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(&out, "%s %s\t%s\x00", entries[file].mode, entries[file].object, file)
	}
	return out.Bytes()
}

// move has a branch lead to a commit, if it leads to old still; "": if it is not there.
// Git compares and swaps under the branch's lock.
func (r *Repository) move(ctx context.Context, branch, made, old string) error {
	if old == "" {
		old = strings.Repeat("0", len(made))
	}
	if _, err := r.Run(ctx, nil, "update-ref", "-m", "sluice: commit", "refs/heads/"+branch, made, old); err != nil {
		if other := r.beside(ctx, branch); other != "" {
			return fmt.Errorf("branch %s: Git has no room for it beside branch %s: rename or delete that one, or choose another name", branch, other)
		}
		return fmt.Errorf("branch %s: %w: begin again from what is there now: %w", branch, ErrMoved, err)
	}
	return nil
}

// beside is a branch whose name is a folder of another one's, or the other way round: Git
// keeps only one of such two. "" is none.
func (r *Repository) beside(ctx context.Context, branch string) string {
	for folder := path.Dir(branch); folder != "."; folder = path.Dir(folder) {
		if _, err := r.Run(ctx, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+folder); err == nil {
			return folder
		}
	}
	below, err := r.Line(ctx, "for-each-ref", "--count=1", "--format=%(refname:lstrip=2)", "refs/heads/"+branch+"/")
	if err != nil {
		return ""
	}
	return below
}

// land moves the branch that is checked out, and takes index and work tree along. The
// name is returned as soon as the branch leads to it, also with an error.
func (r *Repository) land(ctx context.Context, c Commit, entries map[string]entry, made string) (string, error) {
	index, err := r.file(ctx, "index")
	if err != nil {
		return "", err
	}
	// Git's own lock: until it is gone no other git touches the index.
	lock := index + ".lock"
	if err := copyNew(index, lock); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("%w: another git is at work here, or one has died: %s is there; wait for it, or delete the file", ErrMoved, lock)
		}
		return "", fmt.Errorf("lock the index: %w", err)
	}
	landed := false
	defer func() {
		if !landed {
			os.Remove(lock)
		}
	}()
	now, err := r.Status(ctx)
	if err != nil {
		return "", err
	}
	if now.Head != c.Parent {
		return "", fmt.Errorf("commit on %.12s: %w: %.12s is checked out", c.Parent, ErrMoved, now.Head)
	}
	if err := now.clean(c); err != nil {
		return "", err
	}
	files, err := r.smudged(ctx, entries)
	if err != nil {
		return "", err
	}
	if _, err := r.with(ctx, []string{"GIT_INDEX_FILE=" + lock}, info(entries), "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	if err := r.move(ctx, c.Branch, made, c.Parent); err != nil {
		return "", err
	}
	if err := r.checkOut(files); err != nil {
		return made, fmt.Errorf("commit %.12s is made, but not checked out; git restore the files: %w", made, err)
	}
	if err := os.Rename(lock, index); err != nil {
		return made, fmt.Errorf("commit %.12s is made and checked out, but not in the index; git reset: %w", made, err)
	}
	landed = true
	return made, nil
}

// smudged are the new contents as the work tree has them. A file that Git is told not to
// look at may have changes that it does not know of, or is not there: it is refused.
func (r *Repository) smudged(ctx context.Context, entries map[string]entry) (map[string][]byte, error) {
	out := map[string][]byte{}
	for file, e := range entries {
		tag, err := r.Run(ctx, nil, "ls-files", "-v", "-z", "--", ":(top,literal)"+file)
		if err != nil {
			return nil, err
		}
		if !bytes.HasPrefix(tag, []byte("H ")) {
			return nil, fmt.Errorf("%s: Git is told not to look at it in the work tree (sparse checkout, assume-unchanged or skip-worktree): commit to another branch", file)
		}
		if out[file], err = r.Run(ctx, nil, "cat-file", "--filters", "--path="+file, e.object); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func copyNew(from, to string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Close())
}

// checkOut writes files in place of those that are there, each as a whole or not at all.
func (r *Repository) checkOut(files map[string][]byte) error {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, file := range slices.Sorted(maps.Keys(files)) {
		info, err := root.Lstat(file)
		if err != nil {
			return err
		}
		if err := replace(root, file, files[file], info.Mode().Perm()); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func replace(root *os.Root, file string, content []byte, mode fs.FileMode) error {
	beside := path.Join(path.Dir(file), "."+path.Base(file)+".sluice")
	f, err := root.OpenFile(beside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(beside, file)
	}
	if err != nil {
		_ = root.Remove(beside)
	}
	return err
}
