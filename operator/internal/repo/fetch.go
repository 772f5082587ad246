package repo

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Fetch brings the commit here that a branch of a remote leads to, and returns its name.
// No branch of the repository comes to lead elsewhere by it.
func (r *Repository) Fetch(ctx context.Context, from, branch string) (string, error) {
	if from == "" || strings.HasPrefix(from, "-") {
		return "", fmt.Errorf("%q is no remote", from)
	}
	if _, err := r.Run(ctx, nil, "check-ref-format", "refs/heads/"+branch); err != nil {
		return "", fmt.Errorf("%q is no name for a branch", branch)
	}
	// An empty refmap keeps remote-tracking branches as they are too.
	args := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--refmap=", "--", from, "refs/heads/" + branch}
	if _, err := r.run(ctx, limits.GitPush, "limits.GitPush", []string{remote}, nil, args...); err != nil {
		return "", fmt.Errorf("fetch %s from %s: %w", branch, from, err)
	}
	return r.Line(ctx, "rev-parse", "--verify", "--end-of-options", "FETCH_HEAD^{commit}")
}
