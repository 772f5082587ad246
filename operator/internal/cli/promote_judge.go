package cli

import (
	"context"
	"fmt"
	"reflect"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/overlaydiff"
	"github.com/sluice-dev/sluice/operator/internal/promote"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// judge asks the Gates of the target about the changed overlay, as check would, and
// collects what the pull request tells.
func (p *promoting) judge(ctx context.Context) error {
	withoutFolder(p.changed.After)
	in := newInput(p.s)
	for _, set := range p.rules {
		if err := in.take(ctx, set, false); err != nil {
			return err
		}
	}
	if err := in.take(ctx, p.changed.After, true); err != nil {
		return err
	}
	p.onlyChanged(in)
	loader := trust.New(trust.Options{})
	var now checked
	results, _ := judgeAll(ctx, gather.NewJudge(in.files, newAsked(p.client), loader), p.s, in, nil, true)
	now.add(results)
	p.text.Judged = now.run()
	if err := p.evidence(ctx, in.files, loader); err != nil {
		return err
	}
	return p.compare(ctx)
}

// onlyChanged leaves what the promotion changes.
func (p *promoting) onlyChanged(in *input) {
	before := map[overlaydiff.Key]overlay.Object{}
	for _, o := range p.environments[p.to].set.Objects {
		before[overlaydiff.KeyOf(o.Unstructured)] = o
	}
	for _, list := range []*[]subject{&in.workloads, &in.others} {
		var kept []subject
		for _, sub := range *list {
			was, ok := before[overlaydiff.KeyOf(sub.object)]
			if !ok || !reflect.DeepEqual(was.Object, sub.object.Object) {
				kept = append(kept, sub)
			}
		}
		*list = kept
	}
}

// evidence reads what lies beside each image, where a Gate of the target demands any.
func (p *promoting) evidence(ctx context.Context, files *gather.Files, loader *trust.Loader) error {
	var gates []v1beta1.Gate
	for _, g := range files.GateList {
		if g.Spec.Environment == p.to {
			gates = append(gates, g)
		}
	}
	configs := demandsOf(ctx, gates, files, loader)
	p.text.Asked = len(configs) > 0
	if !p.text.Asked {
		return nil
	}
	seen := map[string]bool{}
	for _, t := range p.text.Plan.Undone() {
		image := t.Target.Image.Repository + "@" + t.Source.Image.Digest
		if seen[image] {
			continue
		}
		seen[image] = true
		ref, err := images.Parse(image)
		if err != nil {
			return usage("%w", err)
		}
		c, err := chainOf(ctx, p.client, configs, image, ref)
		if err != nil {
			return err
		}
		p.text.Evidence = append(p.text.Evidence, c.promoted())
	}
	return nil
}

// promoted is the chain as a pull request tells it.
func (c chain) promoted() promote.Evidence {
	out := promote.Evidence{Image: c.Image}
	for _, s := range c.Evidence {
		proof := promote.Proof{Environment: s.Environment, Time: s.Time, Result: string(s.Result), PolicyDigest: s.PolicyDigest, SignedBy: s.SignedBy}
		for _, e := range s.Exemptions {
			proof.Exempted = append(proof.Exempted, fmt.Sprintf("%s, by Exemption %s (%s)", e.Policy, e.Name, e.Reason))
		}
		out.Proofs = append(out.Proofs, proof)
	}
	for _, l := range c.Links {
		out.Links = append(out.Links, promote.Link{From: l.From, To: l.To, Gate: l.Gate, Verdict: l.Verdict, Message: l.Message})
	}
	return out
}

// compare renders the overlay before and after, and notes what to look at.
func (p *promoting) compare(ctx context.Context) error {
	before, err := rendered(ctx, p.environments[p.to].set.Objects)
	if err != nil {
		return err
	}
	after, err := rendered(ctx, p.changed.After.Objects)
	if err != nil {
		// The verdict has it already, as a finding by the schema.
		if p.text.Outcome() == gate.OutcomeDeny {
			return nil
		}
		return err
	}
	if p.text.Changes, err = overlaydiff.Compare(before.set, after.set); err != nil {
		return &exit{code: ExitUndecided, err: err}
	}
	var source *rendition
	if from := p.environments[p.from]; from != nil && p.image == "" {
		if source, err = rendered(ctx, from.set.Objects); err != nil {
			return err
		}
	}
	for _, t := range p.text.Plan.Undone() {
		p.text.Notes = append(p.text.Notes, promote.Notes(t,
			before.state(p.environments[p.to].set, t.Target), after.state(p.changed.After, t.Target), source.state(p.fromSet(), t.Source))...)
	}
	return nil
}

func (p *promoting) fromSet() *overlay.Set {
	if e := p.environments[p.from]; e != nil {
		return e.set
	}
	return nil
}

// state of one Workload in a rendition, empty where it is not there.
func (r *rendition) state(set *overlay.Set, w promote.Workload) promote.State {
	if r == nil || set == nil {
		return promote.State{}
	}
	var out promote.State
	for _, o := range set.Objects {
		if isWorkload(o) && objectName(o) == w.String() {
			out.APIVersion = o.GetAPIVersion()
		}
	}
	for _, have := range r.workloads {
		if have.Namespace == w.Namespace && have.Name == w.Name {
			out.Workload = have
		}
	}
	return out
}
