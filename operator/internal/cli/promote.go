package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/pin"
	"github.com/sluice-dev/sluice/operator/internal/promote"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/repo"
)

type promoteOptions struct {
	registryFlags
	clusterFlags
	from, to             string
	workloads, gates     []string
	image                string
	fromCluster          bool
	overlays             string
	branch, base, remote string
	forgeURL             string
	pullRequest          bool
	draft, dryRun        bool
	notYetOK             bool
	forceWindow          string
	format               string
}

func promoteCommand(s streams) *cobra.Command {
	var o promoteOptions
	c := &cobra.Command{
		Use:   "promote",
		Short: "Take the images of one environment to the next: a branch, a commit and a pull request",
		Long: `Change the overlay of one environment to run what another one has committed, or runs.

Digests, tags and versions are changed in place, on a branch of their own; the work tree
stays as it is. All named Workloads are one commit; without names it is every Workload
that both environments have. An environment that the Gates demand is not left out, and a
promotion takes place within spec.promotionWindows of the Gate alone.

The changed overlay is judged by its own Gates first. What they deny is not committed,
but with --draft: then the pull request is a draft that says so on top.

Where a token is in GH_TOKEN or GITHUB_TOKEN, GITLAB_TOKEN or GITEA_TOKEN, the branch is
pushed and the pull request made, or the open one of the branch brought up to date. It is
sent to github.com, gitlab.com, gitea.com and codeberg.org, or where --forge-url says.
Without one the commands for it are printed.

What only waits, for evidence that the environment before has not given yet or for a
window to open, is told as "not yet". For a job that runs by itself that is no failure:
--not-yet-ok ends with 0 then.

Exit codes: 0 promoted, or there was nothing to do; 1 refused by a Gate, its windows or
the order of environments; 2 wrong flags, or a tree, branch or overlay that does not do;
3 could not decide, or the forge did not answer.`,
		Example: `  sluice promote --from e2e --to prod --dry-run
  sluice promote --from e2e --to prod --workload web --workload api
  sluice promote --from e2e --to prod --from-cluster --context e2e
  sluice promote --from e2e --to prod --not-yet-ok
  sluice promote --to prod --workload web --image registry.example.com/shop/web@sha256:…`,
		Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), s) },
	}
	f := c.Flags()
	f.StringVar(&o.from, "from", "", "environment to promote from (default: the one that the Gate of --to demands evidence of)")
	f.StringVar(&o.to, "to", "", "environment to promote to")
	f.StringArrayVar(&o.workloads, "workload", nil, "name, or namespace/name, of a Workload (repeatable; default: all that both have)")
	f.StringVar(&o.image, "image", "", "run this image, by digest, instead of what another environment has: a rollback, or a release to the first environment")
	f.BoolVar(&o.fromCluster, "from-cluster", false, "take what runs Ready in the cluster of the kubeconfig, and not what is committed")
	f.StringVar(&o.overlays, "overlays", "", "folder with an overlay for each environment (default: overlays or kustomize/overlays of the repository that is worked in)")
	f.StringSliceVar(&o.gates, "gate", nil, "file or folder with further Gates, and what Gates refer to (repeatable)")
	f.StringVar(&o.branch, "branch", "", "branch to commit to (default: promote/ENVIRONMENT)")
	f.StringVar(&o.base, "base", "", "branch that the pull request goes into (default: the one that is checked out)")
	f.StringVar(&o.remote, "remote", "origin", "remote to push to")
	f.BoolVar(&o.pullRequest, "pull-request", true, "push and make the pull request, where there is a token")
	f.StringVar(&o.forgeURL, "forge-url", "", "API of a forge at another host, such as https://git.example.com/api/v4; its path ends with /api/v3 (GitHub), /api/v4 (GitLab) or /api/v1 (Gitea)")
	f.BoolVar(&o.draft, "draft", false, "commit also what the Gate denies, and make the pull request a draft")
	f.BoolVar(&o.notYetOK, "not-yet-ok", false, "end with 0 and not with 1 where all that is missing comes by itself: evidence of the environment before, or an open window")
	f.BoolVar(&o.dryRun, "dry-run", false, "change nothing, and show what would be promoted")
	f.StringVar(&o.forceWindow, "force-window", "", "reason to promote although the windows of the Gate say no; it stands in the pull request")
	f.StringVar(&o.format, "format", formatText, "text, json or markdown (the pull request's text)")
	oneOf(c, "format", formatText, formatJSON, "markdown")
	o.registryFlags.register(c)
	o.clusterFlags.register(c)
	return c
}

var environmentForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (o *promoteOptions) validate() error {
	for _, f := range []struct{ flag, value string }{{"--from", o.from}, {"--to", o.to}} {
		if f.value != "" && !environmentForm.MatchString(f.value) {
			return usage("%s=%q is no name of an environment", f.flag, f.value)
		}
	}
	switch {
	case o.format != formatText && o.format != "json" && o.format != "markdown":
		return usage("--format=%s: there are text, json and markdown", o.format)
	case o.to == "":
		return usage("--to is required: the environment to promote to")
	case o.forceWindow != "" && strings.TrimSpace(o.forceWindow) == "":
		return usage("--force-window needs a reason in words: it stands in the pull request")
	case o.notYetOK && o.draft:
		return usage("--draft commits what the Gate denies: --not-yet-ok has no part in it")
	case o.image != "" && o.fromCluster:
		return usage("--image names what is to run: --from-cluster has no part in it")
	case !o.fromCluster && (o.Kubeconfig != "" || o.Context != "" || o.Namespace != ""):
		return usage("--kubeconfig, --context and --namespace are for --from-cluster")
	}
	return nil
}

// promoting is one run of the command: first all is read and decided, then written.
type promoting struct {
	*promoteOptions
	s      streams
	repo   *repo.Repository
	status repo.Status
	client *registry.Client
	now    time.Time
	// rules are what --gate names.
	rules []*overlay.Set
	// environments by name, as they are committed.
	environments map[string]*environment
	chain        promote.Chain
	changed      *pin.Changed
	text         promote.Text
	// closed says that a window of the target is, so that its Gates were not asked.
	closed bool
	out    promoted
}

func (o *promoteOptions) run(ctx context.Context, s streams) error {
	if err := o.validate(); err != nil {
		return err
	}
	p := &promoting{promoteOptions: o, s: s, now: time.Now()}
	var err error
	if p.client, err = o.client(); err != nil {
		return err
	}
	remove, err := p.read(ctx)
	defer remove()
	if err != nil {
		return err
	}
	if err := p.permitted(); err != nil {
		return err
	}
	if err := p.plan(ctx); err != nil {
		return err
	}
	if len(p.text.Plan.Undone()) == 0 {
		return p.report(nil)
	}
	if err := p.change(); err != nil {
		return err
	}
	if len(p.changed.Files) == 0 {
		return p.settle()
	}
	if err := p.open(); p.closed {
		return p.report(err)
	} else if err != nil {
		return err
	}
	if err := p.along(ctx); err != nil {
		return err
	}
	if err := p.judge(ctx); err != nil {
		return err
	}
	return p.report(p.act(ctx))
}

// permitted holds the promotion against the order of environments.
func (p *promoting) permitted() error {
	if err := p.known(p.to); err != nil {
		return err
	}
	if p.from == "" && p.image == "" {
		if p.from = p.chain.Predecessor(p.to); p.from == "" {
			return usage("--from is required: the Gate of %s does not name one environment before it (spec.requirePromotionFrom)", p.to)
		}
	}
	if p.from != "" {
		if err := p.known(p.from); err != nil {
			return err
		}
		err := p.chain.Route(p.from, p.to)
		if skipped := new(promote.SkipError); errors.As(err, &skipped) {
			return &exit{code: ExitDenied, err: err}
		}
		if err != nil {
			return usage("%w", err)
		}
	}
	return nil
}

// open holds it against the windows of the target, once there is something to do.
func (p *promoting) open() error {
	comes := true
	for _, g := range p.environments[p.to].gates {
		frozen, opens, err := frozen(g, p.now)
		if err != nil {
			return err
		}
		if frozen != "" {
			p.text.Frozen = strings.TrimPrefix(p.text.Frozen+"; "+frozen, "; ")
			comes = comes && opens
		}
	}
	if p.text.Frozen == "" {
		return nil
	}
	if p.text.Forced = p.forceWindow; p.text.Forced != "" {
		return nil
	}
	p.closed = true
	refusal := fmt.Errorf("%s; --force-window=REASON goes past it, and says so in the pull request", p.text.Frozen)
	if !comes {
		return &exit{code: ExitDenied, err: refusal}
	}
	return p.notYet(refusal, p.text.Frozen)
}

// change works out the files; nothing is written yet.
func (p *promoting) change() error {
	to := p.environments[p.to]
	var wants []pin.Want
	for _, t := range p.text.Plan.Undone() {
		object, ok := to.find(t.Target)
		if !ok {
			return usage("workload %s: it is not in the overlay of %s any more", t.Target, p.to)
		}
		wants = append(wants, pin.Want{Object: object, Digest: t.Source.Image.Digest, Tag: t.Source.Image.Tag, Version: t.Version()})
	}
	var err error
	if p.changed, err = pin.Change(to.set, wants...); err != nil {
		return usage("%w", err)
	}
	p.text.Edits = p.changed.Edits
	for _, note := range p.changed.Notes {
		p.text.Notes = append(p.text.Notes, promote.Note{Workload: p.to, Area: "image", Text: note})
	}
	return p.clean(p.changed.Files)
}

// settle is for when all that is left cannot be set in the overlay, such as a version that
// a base has: that is said, and there is nothing to do.
func (p *promoting) settle() error {
	for i := range p.text.Plan.Takes {
		t := &p.text.Plan.Takes[i]
		t.Source.Version = t.Target.Version
	}
	if len(p.text.Plan.Undone()) > 0 {
		return usage("the overlay of %s does not change: report this as a bug of Sluice", p.to)
	}
	for _, note := range p.changed.Notes {
		say(p.s.err, "sluice: ", note)
	}
	return p.report(nil)
}

// clean refuses to promote over what is not committed: it would be judged without it.
func (p *promoting) clean(files map[string][]byte) error {
	for _, dirty := range p.status.Dirty {
		if _, ok := files[dirty]; ok {
			return usage("%s has changes that are not committed: commit or stash them first", dirty)
		}
	}
	return nil
}

func objectName(o overlay.Object) string { return o.GetNamespace() + "/" + o.GetName() }
