package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/scaffold"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// The image that is released to dev, and what dev ran before.
const newImage, oldImage = "shop/cache:7.3.0", "shop/cache:7.2.4"

// promote takes a new image from dev to prod, in a copy of the overlays in a repository of
// its own: by the workflow's step and by merging what that commits. Each step waits as long
// as the environment before has not attested the image.
func promote(ctx context.Context, p *pipeline) error {
	image, err := p.releaseToDev(ctx)
	if err != nil {
		return err
	}
	if err := p.refusesToLeaveOut(ctx); err != nil {
		return err
	}
	for i, to := range scaffold.Environments[1:] {
		if err := p.promotes(ctx, scaffold.Environments[i], to, image); err != nil {
			return fmt.Errorf("from %s to %s: %w", scaffold.Environments[i], to, err)
		}
	}
	args := []string{"history", image, "--gate=" + p.keys(), p.mirror()}
	for _, environment := range scaffold.Environments[1:] {
		args = append(args, "--gate="+filepath.Join(p.overlays(), environment, "gate.yaml"))
	}
	history, err := p.must(ctx, "", p.sluice(), args...)
	if err != nil {
		return err
	}
	fmt.Printf("   | %s\n", strings.ReplaceAll(strings.TrimSpace(history), "\n", "\n   | "))
	return nil
}

// overlays of the copy.
func (p *pipeline) overlays() string { return filepath.Join(p.dist, "fleet", "kustomize", "overlays") }

// releaseToDev makes the repository, and has the base name a new image, which is signed. Dev
// runs what the base names; the others name what they run themselves.
func (p *pipeline) releaseToDev(ctx context.Context) (string, error) {
	folder := filepath.Join(p.dist, "fleet")
	if err := os.CopyFS(filepath.Join(folder, "kustomize"), os.DirFS(filepath.Join(p.root, "kustomize"))); err != nil {
		return "", err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "pipeline"}, {"config", "user.email", "pipeline@example.com"}, {"config", "commit.gpgsign", "false"}} {
		if err := p.git(ctx, args...); err != nil {
			return "", err
		}
	}
	if err := p.commit(ctx, "the overlays"); err != nil {
		return "", err
	}
	digest, err := stage.PushSigned(p.registry, newImage, p.release)
	if err != nil {
		return "", err
	}
	file := filepath.Join(folder, "kustomize", "base", "fleet", "cache.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	now := strings.ReplaceAll(string(text), oldImage, newImage)
	if now == string(text) {
		return "", fmt.Errorf("%s does not name %s", file, oldImage)
	}
	if err := os.WriteFile(file, []byte(now), 0o600); err != nil {
		return "", err
	}
	return stage.Registry + "/" + newImage + "@" + digest, p.commit(ctx, newImage)
}

func (p *pipeline) git(ctx context.Context, args ...string) error {
	_, err := p.must(ctx, "", "git", append([]string{"-C", filepath.Join(p.dist, "fleet")}, args...)...)
	return err
}

func (p *pipeline) commit(ctx context.Context, message string) error {
	if err := p.git(ctx, "add", "-A"); err != nil {
		return err
	}
	return p.git(ctx, "commit", "-q", "-m", message)
}

// workflow runs the step of the workflow that promotes, with its flags, and returns how make
// ended and the summary. Nothing is pushed: the repository has no remote.
func (p *pipeline) workflow(ctx context.Context, from, to string) (stepwise.Output, string, error) {
	step, err := testkit.ReadWorkflowStep(filepath.Join(p.root, ".github", "workflows", "promote.yml"), "promote", "Promote, or say what that waits for")
	if err != nil {
		return stepwise.Output{}, "", err
	}
	flags, ok := strings.CutSuffix(step.Env["PROMOTE_FLAGS"], "--gate=${{ runner.temp }}/keys.yaml")
	if !ok || !strings.Contains(step.Run, "make promote") {
		return stepwise.Output{}, "", fmt.Errorf("promote.yml runs %q with %q, and should make promote and name the keys last", step.Run, step.Env["PROMOTE_FLAGS"])
	}
	summary := filepath.Join(p.dist, "summary.md")
	if err := os.WriteFile(summary, nil, 0o600); err != nil {
		return stepwise.Output{}, "", err
	}
	out, err := p.run(ctx, "", "env", "FROM="+from, "TO="+to, "FLEET="+p.overlays(), "RUNNER_TEMP="+p.dist, "GITHUB_STEP_SUMMARY="+summary,
		"PROMOTE_FLAGS="+flags+"--gate="+p.keys()+" --pull-request=false "+p.mirror(), "bash", "-e", "-c", step.Run)
	if err != nil {
		return stepwise.Output{}, "", err
	}
	text, err := os.ReadFile(summary)
	return out, string(text), err
}

// refusedToPromote wants nothing to be changed, and the workflow to fail or to wait, and its
// summary to say why.
func (p *pipeline) refusedToPromote(ctx context.Context, from, to string, waits bool, why ...string) error {
	out, summary, err := p.workflow(ctx, from, to)
	if err != nil {
		return err
	}
	if (out.Code == 0) != waits {
		return fmt.Errorf("the workflow ends with %d:\n%s%s", out.Code, out.Stdout, out.Stderr)
	}
	for _, text := range why {
		if !strings.Contains(summary, text) {
			return fmt.Errorf("%q is not in the summary:\n%s", text, summary)
		}
	}
	if err := p.git(ctx, "rev-parse", "-q", "--verify", "promote/"+to); err == nil {
		return fmt.Errorf("branch promote/%s is there although the promotion was refused", to)
	}
	return nil
}

func (p *pipeline) refusesToLeaveOut(ctx context.Context) error {
	if err := p.refusedToPromote(ctx, "dev", "prod", false, "ci, then e2e comes between", "Error 1\n"); err != nil {
		return err
	}
	stepwise.Saw("from dev straight to prod is refused: ci and e2e are left out")
	return nil
}

// promotes takes what an environment runs to the next, once it is attested.
func (p *pipeline) promotes(ctx context.Context, from, to, image string) error {
	if err := p.refusedToPromote(ctx, from, to, true, "\n    not yet: ", "has no evidence of environment "+from, lacks(from)); err != nil {
		return err
	}
	gates := []string{"history", image, "--gate=" + filepath.Join(p.overlays(), to), "--gate=" + p.keys(), p.mirror()}
	if out, err := p.run(ctx, "", p.sluice(), gates...); err != nil || out.Code != 1 {
		return fmt.Errorf("history without evidence: exit code %d and not 1 (%w): %s%s", out.Code, err, out.Stdout, out.Stderr)
	}
	if err := p.attest(ctx, p.overlays(), from); err != nil {
		return err
	}
	if _, err := p.must(ctx, "", p.sluice(), gates...); err != nil {
		return err
	}
	out, summary, err := p.workflow(ctx, from, to)
	if err != nil {
		return err
	}
	if out.Code != 0 || !strings.Contains(summary, "\n    committed ") {
		return fmt.Errorf("the workflow ends with %d, and should commit:\n%s%s", out.Code, out.Stdout, out.Stderr)
	}
	if err := p.git(ctx, "merge", "-q", "--ff-only", "promote/"+to); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(p.overlays(), to, "patches", "cache.yaml"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), "image: "+image+"\n") {
		return fmt.Errorf("the overlay does not run %s:\n%s", image, text)
	}
	if err := p.passes(ctx, p.overlays(), to, ""); err != nil {
		return err
	}
	stepwise.Saw("make promote from " + from + " to " + to + " waits until " + from + " attests the image, and is taken after")
	return nil
}
