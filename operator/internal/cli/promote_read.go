package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/live"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/promote"
	"github.com/sluice-dev/sluice/operator/internal/repo"
	"github.com/sluice-dev/sluice/operator/internal/revision"
	"github.com/sluice-dev/sluice/operator/internal/window"
)

// environment is the overlay of one, as it is committed.
type environment struct {
	set *overlay.Set
	// gates of the overlay that are of this environment.
	gates     []v1beta1.Gate
	workloads []promote.Workload
}

func (e *environment) find(w promote.Workload) (overlay.Object, bool) {
	for _, o := range e.set.Objects {
		if isWorkload(o) && objectName(o) == w.String() {
			return o, true
		}
	}
	return overlay.Object{}, false
}

func isWorkload(o overlay.Object) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == v1beta1.GroupVersion.Group && gvk.Kind == v1beta1.WorkloadKind
}

// read takes the last commit, and never the work tree: what is promoted is what others
// can see. The caller calls remove in any case.
func (p *promoting) read(ctx context.Context) (remove func(), err error) {
	remove = func() {}
	if p.repo, err = repo.Open(ctx, cmp.Or(p.overlays, ".")); err != nil {
		return remove, usage("promote works in a Git repository: %w", err)
	}
	if p.status, err = p.repo.Status(ctx); err != nil {
		return remove, usage("%w", err)
	}
	if p.status.Head == "" {
		return remove, usage("the repository has no commit yet")
	}
	if err := p.unstaged(ctx); err != nil {
		return remove, err
	}
	folder, _, remove, err := revision.Unpack(ctx, p.repo.Top(), p.status.Head, ".")
	if err != nil {
		return func() {}, usage("%w", err)
	}
	if err := p.readRules(); err != nil {
		return remove, err
	}
	return remove, p.readOverlays(ctx, folder)
}

// known says that there is an overlay of an environment, and that all that was read for it
// is as it was committed.
func (p *promoting) known(name string) error {
	e := p.environments[name]
	if e == nil {
		return usage("%s has no overlay of environment %s, by its Gate or by its name; there are %s", p.overlays, name, strings.Join(slices.Sorted(maps.Keys(p.environments)), ", "))
	}
	return p.clean(e.set.Files)
}

// unstaged refuses where something waits to be committed: it is likely half a change.
func (p *promoting) unstaged(ctx context.Context) error {
	out, err := p.repo.Run(ctx, nil, "diff", "--cached", "--name-only", "--no-renames", "-z")
	if err != nil {
		return usage("%w", err)
	}
	if first, _, _ := strings.Cut(string(out), "\x00"); first != "" {
		return usage("%s is staged and not committed: commit it, or take it out with git restore --staged", first)
	}
	return nil
}

// readRules reads what --gate names. Unlike the rest it is read as it lies there.
func (p *promoting) readRules() error {
	for _, path := range p.gates {
		set, err := overlay.Load("", path, p.s.in)
		if err != nil {
			return usage("%w", err)
		}
		p.s.warn(set.Warnings)
		p.rules = append(p.rules, set)
	}
	return nil
}

// readOverlays builds the overlays of a folder, and finds their environments.
func (p *promoting) readOverlays(ctx context.Context, folder string) error {
	names, err := p.overlayNames(folder)
	if err != nil {
		return err
	}
	p.environments, p.chain = map[string]*environment{}, promote.Chain{}
	for _, name := range names {
		set, err := overlay.Load(folder, filepath.Join(folder, filepath.FromSlash(p.overlays), name), nil)
		if err != nil {
			err = errors.New(strings.ReplaceAll(err.Error(), folder+"/", ""))
			if name == p.from || name == p.to {
				return usage("%w", err)
			}
			say(p.s.err, "sluice: not read: ", err.Error())
			continue
		}
		withoutFolder(set)
		p.s.warn(set.Warnings)
		if set.Kustomization == "" {
			continue
		}
		if err := p.add(ctx, name, set); err != nil {
			return err
		}
	}
	return nil
}

// overlayNames are the folders that overlays may be in.
func (p *promoting) overlayNames(folder string) ([]string, error) {
	candidates := []string{"overlays", "kustomize/overlays"}
	if p.overlays != "" {
		below, err := p.below(p.overlays)
		if err != nil {
			return nil, err
		}
		candidates = []string{below}
	}
	for _, candidate := range candidates {
		entries, err := os.ReadDir(filepath.Join(folder, filepath.FromSlash(candidate)))
		if err != nil {
			continue
		}
		p.overlays = candidate
		var names []string
		for _, e := range entries {
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, e.Name())
			}
		}
		if len(names) > limits.PromotionOverlays {
			return nil, usage("%s: %d folders, more than %d (limits.PromotionOverlays)", candidate, len(names), limits.PromotionOverlays)
		}
		return names, nil
	}
	return nil, usage("commit %.12s has no folder %s: name it with --overlays", p.status.Head, strings.Join(candidates, " or "))
}

// below is a path of the work tree as the commit has it.
func (p *promoting) below(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err == nil {
		// A link on the way to the work tree is no part of the repository.
		if resolved, err := filepath.EvalSymlinks(abs); err == nil {
			abs = resolved
		}
	}
	top, topErr := filepath.EvalSymlinks(p.repo.Top())
	if err := errors.Join(err, topErr); err != nil {
		return "", usage("--overlays=%s: %w", name, err)
	}
	below, err := filepath.Rel(top, abs)
	if err != nil || below == ".." || strings.HasPrefix(below, "../") {
		return "", usage("--overlays=%s is outside the repository", name)
	}
	return filepath.ToSlash(below), nil
}

// withoutFolder names the files of a set as the repository does.
func withoutFolder(set *overlay.Set) {
	set.Shown = func(file string) string { return file }
	for i := range set.Objects {
		set.Objects[i].File = set.Objects[i].Path
	}
	for i := range set.Warnings {
		set.Warnings[i].File = set.Warnings[i].Path
	}
}

// add notes an overlay under the environments of its Gates, or under its own name.
func (p *promoting) add(ctx context.Context, name string, set *overlay.Set) error {
	own, err := p.gatesOf(ctx, set)
	if err != nil {
		return err
	}
	all, err := p.gatesOf(ctx, append(slices.Clone(p.rules), set)...)
	if err != nil {
		return err
	}
	workloads, err := pinnedIn(set)
	if err != nil {
		return err
	}
	environments := map[string]bool{}
	for _, g := range own {
		environments[g.Spec.Environment] = true
	}
	if len(own) == 0 {
		environments[name] = true
	}
	for environment := range environments {
		if other := p.environments[environment]; other != nil {
			return usage("%s and %s are both overlays of environment %s", other.set.Kustomization, set.Kustomization, environment)
		}
		p.environments[environment] = p.environment(environment, set, all, workloads)
	}
	return nil
}

// environment is one with those of the Gates that are of it, which also say what comes
// before it.
func (p *promoting) environment(name string, set *overlay.Set, gates []v1beta1.Gate, workloads []promote.Workload) *environment {
	e := &environment{set: set, workloads: workloads}
	for _, g := range gates {
		if g.Spec.Environment != name {
			continue
		}
		e.gates = append(e.gates, g)
		if from := g.Spec.RequirePromotionFrom; from != nil && !slices.Contains(p.chain[name], from.Environment) {
			p.chain[name] = append(p.chain[name], from.Environment)
		}
	}
	return e
}

// gatesOf are the Gates of some sets, each once.
func (p *promoting) gatesOf(ctx context.Context, sets ...*overlay.Set) ([]v1beta1.Gate, error) {
	in := newInput(streams{err: io.Discard}) // what is to be said of them is said when they judge
	for _, set := range sets {
		if err := in.take(ctx, set, false); err != nil {
			return nil, err
		}
	}
	return in.files.GateList, nil
}

// pinnedIn are the Workloads of a set, with what pins them.
func pinnedIn(set *overlay.Set) ([]promote.Workload, error) {
	var out []promote.Workload
	for _, o := range set.Objects {
		if !isWorkload(o) {
			continue
		}
		image, _, _ := unstructured.NestedString(o.Object, "spec", "image")
		version, _, _ := unstructured.NestedString(o.Object, "spec", "version")
		ref, err := images.Parse(image)
		if err != nil {
			return nil, usage("%s: Workload %s: spec.image: %w", o.File, objectName(o), err)
		}
		out = append(out, promote.Workload{Namespace: o.GetNamespace(), Name: o.GetName(), Image: ref, Version: version})
	}
	return out, nil
}

// frozen says why a Gate lets no promotion take place now, "" where it does, and whether a
// time is known at which it does again.
func frozen(g v1beta1.Gate, now time.Time) (why string, opens bool, err error) {
	windows, errs := window.Compile(g.Spec.PromotionWindows, field.NewPath("spec", "promotionWindows"))
	if len(errs) > 0 {
		return "", false, refused(fmt.Sprintf("Gate %s cannot be used:", g.Name), errs)
	}
	closed := windows.At(now)
	if closed == nil {
		return "", false, nil
	}
	text := fmt.Sprintf("%s takes no promotions now", g.Spec.Environment)
	if closed.Reason != "" {
		text += " (" + closed.Reason + ")"
	}
	if closed.Opens.IsZero() {
		text += ", and no time was found at which it does"
	} else {
		text += ", but from " + closed.Opens.Format("Mon 2006-01-02 15:04 MST") + " on"
	}
	text = fmt.Sprintf("%s: spec.promotionWindows of gate %s, %s %s in %s", text, g.Name, closed.Kind, closed.Schedule, closed.TimeZone)
	return text, !closed.Opens.IsZero(), nil
}

// plan decides what is taken over.
func (p *promoting) plan(ctx context.Context) error {
	to := p.environments[p.to]
	p.text.To, p.text.From, p.text.Source = p.to, p.from, fmt.Sprintf("commit %.12s", p.status.Head)
	var err error
	if p.image != "" {
		p.text.From = ""
		ref, parseErr := images.Parse(p.image)
		if parseErr != nil {
			return usage("--image: %w", parseErr)
		}
		p.text.Plan, err = promote.Rollback(ref, to.workloads, p.workloads)
	} else {
		p.text.Plan, err = promote.Select(p.environments[p.from].workloads, to.workloads, p.workloads)
	}
	if err != nil {
		return usage("%w", err)
	}
	switch {
	case len(p.text.Plan.Takes) == 0:
		return usage("the overlays of %s and %s have no Workload of the same name", p.from, p.to)
	case p.fromCluster:
		return p.fromLive(ctx)
	}
	return p.resolve(ctx)
}

// resolve asks the registry for digests that nothing pins.
func (p *promoting) resolve(ctx context.Context) error {
	for i := range p.text.Plan.Takes {
		source := &p.text.Plan.Takes[i].Source
		if source.Image.Pinned() {
			continue
		}
		digest, err := p.client.Resolve(ctx, source.Image, nil)
		if err != nil {
			return &exit{code: ExitUndecided, err: fmt.Errorf("workload %s: %w", source, err)}
		}
		say(p.s.err, "sluice: ", fmt.Sprintf("Workload %s is not pinned in %s: tag %s leads to %s now", source, p.from, source.Image.TagToResolve(), digest))
		source.Image.Digest, source.Resolved = digest, true
	}
	return nil
}

// fromLive reads what runs, of the Workloads that are taken.
func (p *promoting) fromLive(ctx context.Context) error {
	cluster, err := live.Connect(p.Options)
	if err != nil {
		return usage("%w", err)
	}
	p.text.Source = "the cluster of " + p.from
	for i := range p.text.Plan.Takes {
		source := &p.text.Plan.Takes[i].Source
		namespace := source.Namespace
		if p.Namespace != "" {
			namespace = p.Namespace
		}
		w, err := cluster.Workload(ctx, namespace, source.Name)
		if err != nil {
			return unreachable(err)
		}
		if w == nil {
			return &exit{code: ExitDenied, err: fmt.Errorf("the cluster has no Workload %s/%s", namespace, source.Name)}
		}
		if err := p.isFrom(ctx, cluster, w); err != nil {
			return err
		}
		if *source, err = promote.Running(w); err != nil {
			return &exit{code: ExitDenied, err: err}
		}
	}
	return nil
}

// isFrom holds the cluster against --from, by the Gate that judged there. Who may not read
// Gates is believed.
func (p *promoting) isFrom(ctx context.Context, cluster *live.Cluster, w *v1beta1.Workload) error {
	if w.Status.Gate == nil || w.Status.Gate.Gate == "" {
		return nil
	}
	g, err := cluster.Object(ctx, v1beta1.GroupVersion.WithKind(v1beta1.GateKind), "", w.Status.Gate.Gate)
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return unreachable(err)
	case g == nil:
		return nil
	}
	if environment, _, _ := unstructured.NestedString(g.Object, "spec", "environment"); environment != p.from {
		return usage("the Workload %s/%s of this cluster is judged by gate %s of environment %s, and not of %s: choose another --context", w.Namespace, w.Name, g.GetName(), environment, p.from)
	}
	return nil
}

// branchName is where the commit goes.
func (p *promoting) branchName() string {
	if p.branch != "" {
		return p.branch
	}
	return path.Join("promote", p.to)
}
