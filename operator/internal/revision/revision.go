// Package revision unpacks a revision of a Git work tree into a folder, to be read like
// any other. It asks the git program for the objects as they are stored, so that neither
// filters, hooks nor attributes of the repository have a say, and nothing is fetched.
package revision

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
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
	g := repository{dir: dir}
	if strings.HasPrefix(below, "./") || strings.HasPrefix(below, "../") || below == "." || below == ".." {
		prefix, err := g.line(ctx, "rev-parse", "--show-prefix")
		if err != nil {
			return "", "", nil, err
		}
		below = path.Join(prefix, below)
	}
	if below = path.Clean(below); path.IsAbs(below) || below == ".." || strings.HasPrefix(below, "../") {
		return "", "", nil, fmt.Errorf("%s is outside the repository", below)
	}
	commit, err := g.line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{tree}")
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

type repository struct{ dir string }

// command is git with nothing around it that could run another program, ask, or download:
// replaced objects and missing ones of a partial clone are not looked for.
func (g repository) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "git", append([]string{"-C", g.dir, "-c", "core.fsmonitor=false", "--no-replace-objects", "--no-pager"}, args...)...)
	c.Env = append(os.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	return c
}

func (g repository) line(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.RevisionCall)
	defer cancel()
	c := g.command(ctx, args...)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return "", failed(ctx, args[0], &said, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func failed(ctx context.Context, command string, said *bytes.Buffer, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("git %s took longer than %s (limits.RevisionCall)", command, limits.RevisionCall)
	}
	if text := strings.TrimSpace(said.String()); text != "" {
		return fmt.Errorf("git %s: %s", command, redact.Text(text, limits.GitErrorBytes))
	}
	return fmt.Errorf("git %s: %w", command, err)
}

// entry of a tree: a file or a symlink.
type entry struct {
	name, object string
	link         bool
	size         int64
}

func (g repository) unpack(ctx context.Context, tree, root string) error {
	ctx, cancel := context.WithTimeout(ctx, limits.RevisionCall)
	defer cancel()
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
	var said bytes.Buffer
	c := g.command(ctx, "ls-tree", "-r", "-z", "-l", "--full-tree", tree)
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("run git: %w", err)
	}
	entries, err = readList(out)
	if err != nil {
		_ = c.Process.Kill()
		_ = c.Wait()
		return nil, err
	}
	if err := c.Wait(); err != nil {
		return nil, failed(ctx, "ls-tree", &said, err)
	}
	return entries, nil
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
	var said bytes.Buffer
	c := g.command(ctx, "cat-file", "--batch")
	c.Stderr = &said
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("run git: %w", err)
	}
	err = writeAll(root, entries, in, bufio.NewReader(out))
	_ = in.Close()
	if err != nil {
		_ = c.Process.Kill()
	}
	if waited := c.Wait(); err == nil && waited != nil {
		err = waited
	}
	if err != nil && (said.Len() > 0 || ctx.Err() != nil) {
		return failed(ctx, "cat-file", &said, err)
	}
	return err
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
