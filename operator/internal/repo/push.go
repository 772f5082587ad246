package repo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// ErrRejected says that a remote has something else on the branch, or does not let it in.
var ErrRejected = errors.New("the remote did not take the branch")

// Push sends a branch to a remote, under the same name. Nothing there is overwritten.
func (r *Repository) Push(ctx context.Context, to, branch string) error {
	if to == "" || strings.HasPrefix(to, "-") {
		return fmt.Errorf("%q is no remote", to)
	}
	if _, err := r.Run(ctx, nil, "check-ref-format", "refs/heads/"+branch); err != nil {
		return fmt.Errorf("%q is no name for a branch", branch)
	}
	ref := "refs/heads/" + branch
	args := []string{"push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--", to, ref + ":" + ref}
	out, err := r.run(ctx, limits.GitPush, "limits.GitPush", []string{remote}, nil, args...)
	if err == nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		if why, ok := strings.CutPrefix(line, "!\t"); ok {
			_, why, _ = strings.Cut(why, "\t")
			return fmt.Errorf("push %s to %s: %w: %s: merge or delete the branch that is there, also one that was squashed, or choose another: %w", branch, to, ErrRejected, strings.TrimSpace(why), err)
		}
	}
	return fmt.Errorf("push %s to %s: %w", branch, to, err)
}

// RemoteURL is where a remote is pushed to, as it is configured.
func (r *Repository) RemoteURL(ctx context.Context, of string) (string, error) {
	if strings.HasPrefix(of, "-") {
		return "", fmt.Errorf("%q is no remote", of)
	}
	return r.Line(ctx, "remote", "get-url", "--push", of)
}
