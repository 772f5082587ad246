package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// command runs a program with the folder of the run as its home, so that nothing of the
// user's settings or credentials counts.
func (w *world) command(ctx context.Context, dir string, env []string, name string, args ...string) (stepwise.Output, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + os.TempDir(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=team", "GIT_AUTHOR_EMAIL=team@example.com", "GIT_COMMITTER_NAME=team", "GIT_COMMITTER_EMAIL=team@example.com",
	}, env...)
	return stepwise.Run(c)
}

// sluice runs the command line in the fleet's working copy.
func (w *world) sluice(ctx context.Context, args ...string) (stepwise.Output, error) {
	return w.command(ctx, w.repository.dir, []string{"COSIGN_PASSWORD="}, filepath.Join(w.root, "bin", "sluice"), append(args, "--registry-mirror="+stage.Registry+"="+w.registry)...)
}
