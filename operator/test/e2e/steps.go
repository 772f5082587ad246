package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

var steps = []stepwise.Step[*world]{
	{Title: "Four clusters run Sluice, one for each environment", Run: clusters},
	{Title: "Argo CD runs with Sluice's health checks and actions", Run: argoCD},
	{Title: "sluice init writes the fleet, and Argo CD syncs it into the cluster of each environment", Run: fleet},
	{Title: "A new image goes from dev to prod, by merges alone, and only with evidence", Run: delivery},
	{Title: "An unsigned image that is merged into prod is refused, and what ran runs on", Run: unsigned},
	{Title: "Evidence of another image does not count", Run: forged},
	{Title: "Rollback: the image before comes back by its digest, and its evidence is still there", Run: rollback},
	{Title: "Workloads are paused, resumed and looked at again from Argo CD", Run: actions},
	{Title: "Workloads were never OutOfSync because of Sluice", Run: inSync},
	{Title: "Argo CD's own engine agrees with the tests of the scripts", Run: engine},
}

func clusters(ctx context.Context, w *world) error {
	if err := w.startClusters(ctx); err != nil {
		return err
	}
	var err error
	if w.first, err = w.buildSigned("1.0.0"); err != nil {
		return err
	}
	return stepwise.OK("%d operators are ready, each with its own webhooks, rights and key", len(w.environments))
}

func argoCD(ctx context.Context, w *world) error {
	if err := w.serveRepository(ctx); err != nil {
		return err
	}
	if err := w.startArgo(ctx); err != nil {
		return err
	}
	if err := w.registerClusters(ctx); err != nil {
		return err
	}
	// Those of this repository's own overlays name a repository that is not here: they are
	// held against Argo CD's schemas.
	dry, err := stepwise.Must(w.command(ctx, w.root, []string{"KUBECONFIG=" + w.hub().stage.Cluster.Kubeconfig()}, filepath.Join(w.root, "bin", "tools", "kubectl"),
		"apply", "--dry-run=server", "--validate=strict", "-k", "kustomize/argocd"))
	if err != nil {
		return fmt.Errorf("kustomize/argocd: %w", err)
	}
	fmt.Printf("   | %s\n", strings.ReplaceAll(strings.TrimSpace(dry), "\n", "\n   | "))
	return stepwise.OK("repository server, both controllers and API are ready; four clusters are registered, with the rights that a fleet needs")
}

// fleet begins with an image that ran everywhere before there were Gates: somebody signs
// for that. What comes after is signed by the operators.
func fleet(ctx context.Context, w *world) error {
	if err := w.makeFleet(ctx); err != nil {
		return err
	}
	revision, err := w.repository.publish(ctx)
	if err != nil {
		return err
	}
	for _, e := range w.environments {
		if err := w.attest(ctx, e, w.first); err != nil {
			return err
		}
	}
	for _, name := range []string{"project.yaml", "applicationset.yaml"} {
		objects, err := stage.Objects(w.repository.dir, filepath.Join("argocd", name))
		if err != nil {
			return err
		}
		if err := w.hub().stage.Cluster.Apply(ctx, objects); err != nil {
			return err
		}
	}
	images := map[string]release{}
	for _, e := range w.environments {
		images[e.name] = w.first
	}
	if err := w.settledEverywhere(ctx, revision, images); err != nil {
		return err
	}
	w.mark(revision, w.environments...)
	return stepwise.OK("the ApplicationSet made four Applications; each is Synced and Healthy")
}

// mark notes that a commit changed environments.
func (w *world) mark(revision string, changed ...*environment) {
	for _, e := range changed {
		e.revisions = append(e.revisions, revision)
	}
}

func delivery(ctx context.Context, w *world) error {
	var err error
	if w.second, err = w.buildSigned("1.1.0"); err != nil {
		return err
	}
	revision, err := w.merge(ctx, change{title: "web 1.1.0 in dev", edit: func(context.Context) error { return w.setImage("dev", w.second) }, review: w.passes("dev")})
	if err != nil {
		return err
	}
	for i, e := range w.environments {
		if err := w.delivered(ctx, e, revision, w.second); err != nil {
			return err
		}
		w.mark(revision, e)
		if i == len(w.environments)-1 {
			break
		}
		next := w.environments[i+1]
		if err := w.tooEarly(ctx, e, next); err != nil {
			return err
		}
		if err := w.attested(ctx, e, w.second); err != nil {
			return err
		}
		revision, err = w.merge(ctx, w.promotion(fmt.Sprintf("promote web 1.1.0 from %s to %s", e.name, next.name), next.name, "--from="+e.name))
		if err != nil {
			return err
		}
	}
	return stepwise.OK("1.1.0 runs in prod; each environment had it signed by the one before, and nobody applied anything by hand")
}

// tooEarly wants a promotion without evidence refused, with nothing committed.
func (w *world) tooEarly(ctx context.Context, from, to *environment) error {
	out, err := w.sluice(ctx, "promote", "--from="+from.name, "--to="+to.name, "--workload=web")
	if err != nil {
		return err
	}
	why := "image has no evidence that it passed environment " + from.name
	if out.Code != 1 || !strings.Contains(out.Stdout+out.Stderr, why) {
		return fmt.Errorf("sluice promote ends with %d, and should with 1 and say %q: %s%s", out.Code, why, out.Stdout, out.Stderr)
	}
	branches, err := w.repository.git(ctx, w.repository.dir, "branch", "--list", "promote/*")
	if err != nil || branches != "" {
		return fmt.Errorf("a promotion that was refused left %q: %w", branches, err)
	}
	fmt.Printf("   sluice promote says no: %s\n", why)
	return nil
}

func rollback(ctx context.Context, w *world) error {
	prod := w.environment("prod")
	revision, err := w.merge(ctx, w.promotion("web back to 1.0.0 in prod", "prod", "--image="+w.first.String()))
	if err != nil {
		return err
	}
	if err := w.delivered(ctx, prod, revision, w.first); err != nil {
		return err
	}
	w.mark(revision, prod)
	for _, e := range w.environments[:3] {
		if err := w.delivered(ctx, e, revision, w.second); err != nil {
			return err
		}
	}
	return stepwise.OK("prod runs 1.0.0 again, and the others 1.1.0")
}
