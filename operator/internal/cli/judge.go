package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

// narrow leaves what a change touches, and returns how many objects were passed over.
func (w *world) narrow(s streams) int {
	if w.scope == nil {
		return 0
	}
	if w.scope.all != "" {
		what := "everything"
		if w.of != "" {
			what += " in " + w.of
		}
		say(s.err, "sluice: ", what+" is judged: "+w.scope.all)
		return 0
	}
	passed := 0
	for _, list := range []*[]subject{&w.workloads, &w.others} {
		var kept []subject
		for _, sub := range *list {
			if w.scope.judged(sub) {
				kept = append(kept, sub)
			} else {
				passed++
			}
		}
		*list = kept
	}
	return passed
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

// judgeAll judges side by side, and returns the results in the order of the input.
func judgeAll(ctx context.Context, judge *gather.Judge, s streams, in *input) []result {
	subjects := append(append([]subject(nil), in.workloads...), in.others...)
	results := make([]result, len(subjects))
	var done atomic.Int64
	stop := s.progress(&done, len(subjects))
	inParallel(limits.CheckParallel, len(subjects), func(i int) {
		results[i] = result{subjects[i], judgeOne(ctx, judge, subjects[i])}
		done.Add(1)
	})
	stop()
	var out []result
	for _, r := range results {
		if len(r.verdicts) > 0 {
			out = append(out, r)
			continue
		}
		if o := r.subject.object; images.PodBearing(o.GetAPIVersion(), o.GetKind()) {
			say(in.told, "sluice: not judged: ", fmt.Sprintf("%s/%s/%s (%s): no Gate names its kind in spec.match.kinds",
				o.GetKind(), o.GetNamespace(), o.GetName(), r.subject.file))
		}
	}
	return out
}

func judgeOne(ctx context.Context, judge *gather.Judge, sub subject) []gate.Verdict {
	switch {
	case len(sub.invalid) > 0:
		return []gate.Verdict{invalid(sub)}
	case sub.workload != nil:
		return judge.Workload(ctx, sub.workload, nil).Verdicts
	}
	return judge.Object(ctx, sub.object.Object, sub.object.GetNamespace()).Verdicts
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
