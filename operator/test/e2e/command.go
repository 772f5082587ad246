package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

// output is how a command ended.
type output struct {
	stdout, stderr string
	code           int
}

// failed is the output as an error, nil where the code is 0.
func (o output) failed() error {
	if o.code == 0 {
		return nil
	}
	return fmt.Errorf("exit code %d: %s", o.code, strings.TrimSpace(o.stderr+o.stdout))
}

// command runs a program with the folder of the run as its home, so that nothing of the
// user's settings or credentials counts. A code other than 0 is no error: the steps judge it.
func (w *world) command(ctx context.Context, dir string, env []string, name string, args ...string) (output, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + os.TempDir(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=team", "GIT_AUTHOR_EMAIL=team@example.com", "GIT_COMMITTER_NAME=team", "GIT_COMMITTER_EMAIL=team@example.com",
	}, env...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return output{}, fmt.Errorf("run %s: %w", name, err)
	}
	return output{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}, nil
}

// sluice runs the command line in the fleet's working copy.
func (w *world) sluice(ctx context.Context, args ...string) (output, error) {
	return w.command(ctx, w.repository.dir, []string{"COSIGN_PASSWORD="}, filepath.Join(w.root, "bin", "sluice"), append(args, "--registry-mirror="+stage.Registry+"="+w.registry)...)
}

// must runs a command that has to succeed, and returns its standard output.
func (w *world) must(out output, err error) (string, error) {
	if err == nil {
		err = out.failed()
	}
	return out.stdout, err
}
