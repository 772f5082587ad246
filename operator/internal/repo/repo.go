// Package repo runs git, for all of Sluice, in one way: no hook, filter, pager, monitor or
// diff program that a repository configures is run, nothing is asked for on the terminal,
// no missing object is fetched, and time and output are bounded. What the user has Git do
// for them, such as signing commits and finding credentials, is left to Git.
package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Repository is the one that holds a folder. It has no state of its own, and is safe for
// concurrent use.
type Repository struct {
	dir string
	// without are -c arguments that take the filters out which are configured.
	without []string
}

// At is the repository that holds a folder. Whether there is one shows at the first call.
func At(dir string) *Repository { return &Repository{dir: dir} }

// Open finds the work tree that holds a folder, and its configuration's filters, which no
// call will run.
func Open(ctx context.Context, dir string) (*Repository, error) {
	top, err := At(dir).Line(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	r := At(top)
	out, err := r.Run(ctx, nil, "config", "--name-only", "-z", "--get-regexp", `^filter\..*\.(clean|smudge|process|required)$`)
	if err != nil && !exited(err, 1) {
		return nil, err
	}
	for name := range strings.SplitSeq(string(out), "\x00") {
		switch {
		case strings.HasSuffix(name, ".required"):
			r.without = append(r.without, "-c", name+"=false")
		case name != "":
			r.without = append(r.without, "-c", name+"=")
		}
	}
	return r, nil
}

// Top is the work tree's root, of a repository that was opened.
func (r *Repository) Top() string { return r.dir }

// never are settings that would run something, whoever made them.
var never = []string{
	"core.fsmonitor=false", "core.hooksPath=" + os.DevNull, "core.quotePath=false", "core.pager=cat",
	"gc.auto=0", "maintenance.auto=false", "protocol.ext.allow=never", "advice.detachedHead=false",
}

// kept of the caller's environment are what says who commits, how to reach a remote, and
// where the configuration is. All other GIT_ variables are taken out: within a hook they
// name another index, or another repository than the one that holds the folder.
var kept = []string{
	"GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG", "GIT_SSH", "GIT_ASKPASS=", "GIT_SSL_", "GIT_HTTP_", "GIT_PROXY_", "GIT_EXEC_PATH=",
	"GIT_CEILING_DIRECTORIES=", "GIT_DISCOVERY_ACROSS_FILESYSTEM=", "GIT_ALLOW_PROTOCOL=",
}

// remote among the variables of a command lets it talk to others, by the protocols that
// the caller allows.
const remote = "SLUICE_GIT_REMOTE=1"

// environment for git, from the caller's.
func environment(from []string, more ...string) []string {
	var out []string
	for _, pair := range from {
		if !strings.HasPrefix(pair, "GIT_") || slices.ContainsFunc(kept, func(k string) bool { return strings.HasPrefix(pair, k) }) {
			out = append(out, pair)
		}
	}
	// Git before 2.45 knows no GIT_NO_LAZY_FETCH, but heeds that no protocol is allowed.
	if !slices.Contains(more, remote) {
		more = append(more, "GIT_ALLOW_PROTOCOL=none")
	}
	out = append(out, "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	return append(out, more...)
}

func (r *Repository) command(ctx context.Context, more []string, args ...string) *exec.Cmd {
	all := []string{"-C", r.dir, "--no-pager"}
	for _, setting := range never {
		all = append(all, "-c", setting)
	}
	all = append(append(all, r.without...), args[0])
	if args[0] == "diff" {
		all = append(all, "--no-ext-diff", "--no-textconv")
	}
	c := exec.CommandContext(ctx, "git", append(all, args[1:]...)...)
	c.Env = environment(os.Environ(), more...)
	// What git started may hold its output open when git is gone.
	c.WaitDelay = limits.GitGone
	return c
}

// failure says why git did not do what it was told.
type failure struct {
	command string
	// said is the beginning of what git said.
	said string
	err  error
}

func (f *failure) Error() string {
	if f.said != "" {
		return fmt.Sprintf("git %s: %s", f.command, f.said)
	}
	return fmt.Sprintf("git %s: %v", f.command, f.err)
}

func (f *failure) Unwrap() error { return f.err }

// ErrTooLong is an output over limits.GitOutputBytes.
var ErrTooLong = fmt.Errorf("more than %d bytes of output (limits.GitOutputBytes)", limits.GitOutputBytes)

// exited says whether git ended with a code.
func exited(err error, code int) bool {
	e := new(exec.ExitError)
	return errors.As(err, &e) && e.ExitCode() == code
}

// None says that git ended with 1, by which some of its commands say that there is none
// of what was asked for.
func None(err error) bool { return exited(err, 1) }

// Run runs one command within limits.GitCall, and returns what it prints.
func (r *Repository) Run(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	return r.run(ctx, limits.GitCall, "limits.GitCall", nil, in, args...)
}

// Line is Run, for an answer of one line.
func (r *Repository) Line(ctx context.Context, args ...string) (string, error) {
	out, err := r.Run(ctx, nil, args...)
	return strings.TrimRight(string(out), "\r\n"), err
}

func (r *Repository) run(ctx context.Context, within time.Duration, limit string, env []string, in io.Reader, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c := r.command(ctx, env, args...)
	out, said := &bounded{most: limits.GitOutputBytes}, &bounded{most: limits.GitErrorBytes}
	c.Stdin, c.Stdout, c.Stderr = in, out, said
	err := c.Run()
	switch {
	case out.over:
		return nil, &failure{command: args[0], err: ErrTooLong}
	case err != nil:
		return out.Bytes(), failed(ctx, args[0], within, limit, said, err)
	}
	return out.Bytes(), nil
}

func failed(ctx context.Context, command string, within time.Duration, limit string, said *bounded, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &failure{command: command, err: fmt.Errorf("it took longer than %s (%s)", within, limit)}
	}
	text := redact.Text(strings.TrimSpace(said.String()), limits.GitErrorBytes)
	if strings.Contains(text, "promisor remote") {
		text = "this is a partial clone, which lacks files that are needed, and nothing is fetched for you: git fetch --refetch --no-filter: " + text
	}
	return &failure{command: command, said: text, err: err}
}

// Stream runs one command within limits.RevisionCall, while talk writes to it and reads
// what it prints. It ends when talk does: one that does not read to the end kills git.
func (r *Repository) Stream(ctx context.Context, talk func(in io.Writer, out io.Reader) error, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limits.RevisionCall)
	defer cancel()
	c := r.command(ctx, nil, args...)
	said := &bounded{most: limits.GitErrorBytes}
	c.Stderr = said
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
	talked := talk(in, out)
	_ = in.Close()
	if talked != nil {
		_ = c.Process.Kill()
	}
	waited := c.Wait()
	switch {
	case talked != nil && said.Len() == 0 && ctx.Err() == nil:
		return talked
	case talked != nil || waited != nil:
		return failed(ctx, args[0], limits.RevisionCall, "limits.RevisionCall", said, errors.Join(waited, talked))
	}
	return nil
}

// bounded is a buffer that keeps as many bytes. Git is not stopped by what it says beyond
// them on standard error; a list that is cut off would be taken for a whole one.
type bounded struct {
	bytes.Buffer
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - b.Len(); len(p) > room {
		b.over = true
		b.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// file is where a file of the repository's own lies, such as its index.
func (r *Repository) file(ctx context.Context, name string) (string, error) {
	at, err := r.Line(ctx, "rev-parse", "--git-path", name)
	if err != nil || filepath.IsAbs(at) {
		return at, err
	}
	return filepath.Join(r.dir, at), nil
}
