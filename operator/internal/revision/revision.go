// Package revision unpacks a revision of a Git work tree into a folder, to be read like
// any other. It asks the git program for the objects as they are stored, so that neither
// filters, hooks nor attributes of the repository have a say, and nothing is fetched: in a
// partial clone a revision whose files are not all there is an error that says so.
package revision

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/repo"
)

// Split takes REV:PATH apart. As in git, the path is from the root of the repository, or
// from the working directory where it starts with ./ or ../. What exists as a file or
// folder is not a revision.
func Split(name string) (rev, below string, ok bool) {
	if _, err := os.Lstat(name); err == nil {
		return "", "", false
	}
	rev, below, ok = strings.Cut(name, ":")
	return rev, below, ok && rev != ""
}

// Unpack writes the files of a revision of the repository that holds dir into a new
// folder, and returns the folder and where in it below is. The caller calls remove.
func Unpack(ctx context.Context, dir, rev, below string) (root, target string, remove func(), err error) {
	if strings.HasPrefix(rev, "-") {
		return "", "", nil, fmt.Errorf("%q is not a revision", rev)
	}
	g := repository{repo.At(dir)}
	if strings.HasPrefix(below, "./") || strings.HasPrefix(below, "../") || below == "." || below == ".." {
		prefix, err := g.Line(ctx, "rev-parse", "--show-prefix")
		if err != nil {
			return "", "", nil, err
		}
		below = path.Join(prefix, below)
	}
	if below = path.Clean(below); path.IsAbs(below) || below == ".." || strings.HasPrefix(below, "../") {
		return "", "", nil, fmt.Errorf("%s is outside the repository", below)
	}
	commit, err := g.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{tree}")
	if err != nil {
		return "", "", nil, fmt.Errorf("there is no revision %q here; fetch it first: %w", rev, err)
	}
	root, err = os.MkdirTemp("", "sluice-revision-")
	if err != nil {
		return "", "", nil, fmt.Errorf("folder for revision %s: %w", rev, err)
	}
	remove = func() { _ = os.RemoveAll(root) }
	if err := g.unpack(ctx, commit, root); err != nil {
		remove()
		return "", "", nil, fmt.Errorf("revision %s: %w", rev, err)
	}
	return root, filepath.Join(root, filepath.FromSlash(below)), remove, nil
}

// entry of a tree: a file or a symlink.
type entry struct {
	name, object string
	link         bool
	size         int64
}

// repository is asked for its objects.
type repository struct{ *repo.Repository }

func (g repository) unpack(ctx context.Context, tree, root string) error {
	entries, err := g.list(ctx, tree)
	if err != nil {
		return err
	}
	// The kernel keeps what is written below the folder, whatever the tree calls its files.
	handle, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer handle.Close()
	return g.write(ctx, handle, entries)
}

// list reads the tree, and holds it against the bounds before anything is unpacked.
func (g repository) list(ctx context.Context, tree string) (entries []entry, err error) {
	err = g.Stream(ctx, func(_ io.Writer, out io.Reader) error {
		entries, err = readList(out)
		return err
	}, "ls-tree", "-r", "-z", "-l", "--full-tree", tree)
	return entries, err
}

func readList(out io.Reader) ([]entry, error) {
	var entries []entry
	var total int64
	// The longest path that Linux has is 4 KiB.
	scanner := bufio.NewScanner(out)
	scanner.Split(untilNUL)
	for scanner.Scan() {
		e, ok, err := parseEntry(scanner.Text())
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if e.size <= limits.SourceFileBytes {
			total += e.size
		}
		entries = append(entries, e)
		if len(entries) > limits.RevisionFiles {
			return nil, fmt.Errorf("it has more than %d files (limits.RevisionFiles)", limits.RevisionFiles)
		}
		if total > limits.RevisionBytes {
			return nil, fmt.Errorf("it has more than %d bytes (limits.RevisionBytes)", limits.RevisionBytes)
		}
	}
	return entries, scanner.Err()
}

func untilNUL(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, errors.New("git ls-tree: the list breaks off")
	}
	return 0, nil, nil
}

// parseEntry reads "100644 blob HASH    SIZE\tNAME". Submodules are left out: what they
// hold is not in the repository.
func parseEntry(line string) (entry, bool, error) {
	head, name, ok := strings.Cut(line, "\t")
	fields := strings.Fields(head)
	if !ok || len(fields) != 4 {
		return entry{}, false, fmt.Errorf("git ls-tree: %q is not understood", redact.Text(line, limits.GitErrorBytes))
	}
	if fields[1] != "blob" {
		return entry{}, false, nil
	}
	size, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil {
		return entry{}, false, fmt.Errorf("git ls-tree: size of %q: %w", redact.Text(name, limits.GitErrorBytes), err)
	}
	return entry{name: name, object: fields[2], link: fields[0] == "120000", size: size}, true, nil
}

// write has git print one object after the other.
func (g repository) write(ctx context.Context, root *os.Root, entries []entry) error {
	return g.Stream(ctx, func(in io.Writer, out io.Reader) error {
		return writeAll(root, entries, in, bufio.NewReader(out))
	}, "cat-file", "--batch")
}

func writeAll(root *os.Root, entries []entry, in io.Writer, out *bufio.Reader) error {
	for _, e := range entries {
		if err := root.MkdirAll(path.Dir(e.name), 0o700); err != nil {
			return fmt.Errorf("unpack %s: %w", e.name, err)
		}
		if e.size > limits.SourceFileBytes {
			if err := placeholder(root, e); err != nil {
				return fmt.Errorf("unpack %s: %w", e.name, err)
			}
			continue
		}
		if _, err := fmt.Fprintln(in, e.object); err != nil {
			return fmt.Errorf("git cat-file: %w", err)
		}
		content, err := object(out, e)
		if err == nil && e.link {
			err = root.Symlink(string(content), e.name)
		} else if err == nil {
			err = root.WriteFile(e.name, content, 0o600)
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", e.name, err)
		}
	}
	return nil
}

// object reads "HASH blob SIZE\n", the content and a line break.
func object(out *bufio.Reader, e entry) ([]byte, error) {
	head, err := out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	if want := fmt.Sprintf("%s blob %d\n", e.object, e.size); head != want {
		return nil, fmt.Errorf("git cat-file: %q is not understood", redact.Text(head, limits.GitErrorBytes))
	}
	content := make([]byte, e.size+1)
	if _, err := io.ReadFull(out, content); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return content[:e.size], nil
}

// placeholder is a file that is as much too large as the one it stands for, and takes no
// room: reading it is the same error.
func placeholder(root *os.Root, e entry) error {
	f, err := root.OpenFile(e.name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(limits.SourceFileBytes+1), f.Close())
}
