package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/collector"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/parallel"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

// explain says why a change has everything judged.
func (w *world) explain(s streams) {
	if w.scope == nil || w.scope.all == "" {
		return
	}
	what := "everything"
	if w.of != "" {
		what += " in " + w.of
	}
	say(s.err, "sluice: ", what+" is judged: "+w.scope.all)
}

// wrong is the faults of the overlays that a change touches.
func (w *world) wrong() []report.Fault {
	var out []report.Fault
	for _, key := range slices.Sorted(maps.Keys(w.faults)) {
		if w.scope == nil || w.scope.all != "" || w.scope.touched[key] {
			out = append(out, w.faults[key]...)
		}
	}
	return out
}

// result is what became of one object.
type result struct {
	file string
	// verdicts of the Gates that match it; unjudged says why there are none.
	verdicts []gate.Verdict
	unjudged string
	// places where each finding was written; nil where nothing was found, or nobody asks.
	places map[gate.Finding]report.Place
}

// judgeAll admits and judges side by side what a change touches, everything where scope is
// nil, and returns the results in the order of the input and how many objects were passed
// over. It empties the input: an object is let go when it was judged, and what was found
// about it was looked up, where that is placed.
func judgeAll(ctx context.Context, judge *gather.Judge, s streams, in *input, scope *scope, placed bool) (judged []result, passed int) {
	workloads := len(in.workloads)
	subjects := slices.Concat(in.workloads, in.others)
	in.workloads, in.others, in.seen = nil, nil, nil
	in.dependents = make([]dependent, workloads)
	results := make([]result, len(subjects))
	var done, over atomic.Int64
	stop := s.progress(&done, len(subjects))
	one := func(i int) {
		if ctx.Err() != nil {
			return // told to end: nothing of this is shown
		}
		sub := subjects[i]
		subjects[i] = subject{}
		if i < workloads {
			sub = admit(ctx, in.converter, sub)
			in.dependents[i] = dependentOf(sub)
		}
		if scope.judged(sub) {
			results[i] = judgeOne(ctx, judge, sub, placed)
		} else {
			over.Add(1)
		}
		done.Add(1)
	}
	if in.asksRegistries() {
		parallel.Do(limits.CheckParallel, len(subjects), one)
	} else {
		collector.Each(len(subjects), one)
	}
	stop()
	for _, r := range results {
		if r.unjudged != "" {
			say(in.told, "sluice: not judged: ", r.unjudged)
		}
		if len(r.verdicts) > 0 {
			judged = append(judged, r)
		}
	}
	return judged, int(over.Load())
}

// asksRegistries says whether a judgement may have to wait for a registry.
func (in *input) asksRegistries() bool {
	return slices.ContainsFunc(in.files.GateList, func(g v1beta1.Gate) bool { return asksRegistry(&g.Spec) })
}

func asksRegistry(g *v1beta1.GateSpec) bool {
	return slices.ContainsFunc(g.Images, looksUp) || g.RequirePromotionFrom != nil ||
		slices.ContainsFunc(g.Policies, func(p v1beta1.PolicySource) bool { return p.OCI != nil })
}

// looksUp says whether an image that the rule matches is looked up, see signature.Needs.
func looksUp(r v1beta1.ImageRule) bool {
	return r.Require == nil || *r.Require != intstr.FromString("none") || len(r.Attestations) > 0
}

func judgeOne(ctx context.Context, judge *gather.Judge, sub subject, placed bool) result {
	judgement := judgementOf(ctx, judge, sub)
	out := result{file: sub.file, verdicts: judgement.Verdicts}
	if o := sub.object; len(out.verdicts) == 0 && images.PodBearing(o.GetAPIVersion(), o.GetKind()) {
		name := gate.ObjectRef{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
		out.unjudged = fmt.Sprintf("%s (%s): no Gate names its kind in spec.match.kinds", name, sub.file)
	}
	if found := findings(out.verdicts); placed && len(found) > 0 {
		out.places = sub.places(found, judgement.Children)
	}
	return out
}

func judgementOf(ctx context.Context, judge *gather.Judge, sub subject) gather.Judgement {
	switch {
	case len(sub.invalid) > 0:
		return gather.Judgement{Verdicts: []gate.Verdict{invalid(sub)}}
	case sub.workload != nil:
		return judge.Workload(ctx, sub.workload, nil)
	}
	return judge.Object(ctx, sub.object.Object, sub.object.GetNamespace())
}

// progress shows a count on a terminal until the returned function is called.
func (s streams) progress(done *atomic.Int64, total int) (stop func()) {
	if !isTerminal(s.err) {
		return func() {}
	}
	quit := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		tick := time.NewTicker(limits.ProgressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(s.err, "\r%d of %d judged\x1b[K", done.Load(), total)
			case <-quit:
				fmt.Fprint(s.err, "\r\x1b[K")
				return
			}
		}
	})
	return func() { close(quit); shown.Wait() }
}
