package rollout

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// world plays the pods, the metrics and the reconciler of one rollout.
type world struct {
	t      *testing.T
	random *rand.Rand
	p      Progress
	now    time.Time
	// pods and metrics are how likely they are well, in percent.
	pods, metrics int
	// bad are the outcomes of metrics that are not.
	bad []v1beta1.MeasurementOutcome
	// lazy is a reconciler that never measures.
	lazy bool
}

func newWorld(t *testing.T, seed uint64) *world {
	random := rand.New(rand.NewPCG(seed, 7))
	plan := Plan{
		ProgressDeadline: time.Duration(10+random.IntN(600)) * time.Second, Interval: time.Duration(random.IntN(120)) * time.Second,
		FailureLimit: random.IntN(4), NoData: []v1beta1.NoDataPolicy{v1beta1.NoDataPass, v1beta1.NoDataFail, v1beta1.NoDataWait}[random.IntN(3)],
		Timeout: time.Duration(random.IntN(300)) * time.Second,
	}
	for range random.IntN(3) {
		plan.Metrics = append(plan.Metrics, string(rune('a'+len(plan.Metrics))))
	}
	c := batch([]string{"1", "2", "30%"}[random.IntN(3)])
	for range random.IntN(4) {
		c.Steps = append(c.Steps, to([]string{"1", "3", "60%"}[random.IntN(3)], time.Duration(random.IntN(300))*time.Second))
	}
	plan.Steps = Steps(random.Int32N(7), c)
	bad := []v1beta1.MeasurementOutcome{v1beta1.MeasurementFailed, v1beta1.MeasurementNoData, v1beta1.MeasurementError, v1beta1.MeasurementUnreachable}
	if one := random.IntN(8); one < len(bad) {
		bad = bad[one : one+1]
	}
	return &world{
		t: t, random: random, now: t0, pods: []int{0, 50, 95, 100}[random.IntN(4)], metrics: []int{0, 50, 95, 100}[random.IntN(4)], bad: bad,
		lazy: random.IntN(20) == 0, p: Progress{Plan: plan, Began: t0},
	}
}

func (w *world) chance(percent int) bool { return w.random.IntN(100) < percent }

func (w *world) measure() []v1beta1.Measurement {
	var out []v1beta1.Measurement
	for _, m := range w.p.Plan.Metrics {
		if w.chance(w.metrics) {
			out = append(out, passed(m))
		} else {
			out = append(out, measured(m, w.bad[w.random.IntN(len(w.bad))]))
		}
	}
	return out
}

// look is one reconcile.
func (w *world) look() Decision {
	if r := w.chance(w.pods); r != w.p.Ready {
		w.p.Ready, w.p.Since = r, w.now
	}
	if w.p.Due(w.now) && !w.lazy {
		w.p = w.p.Add(w.measure(), w.now)
	}
	d := Advance(w.p, w.now)
	w.check(d)
	return d
}

// check holds a decision to what must be true of every one.
func (w *world) check(d Decision) {
	w.t.Helper()
	p := w.p
	limit := max(1, p.Plan.FailureLimit)
	watch := p.Plan.Interval + p.Plan.Steps[p.Step].Pause
	last := p.Step == len(p.Plan.Steps)-1
	switch d.Action {
	case Proceed, Finish:
		if (d.Action == Finish) != last {
			w.t.Fatalf("%s at step %d of %d", d.Action, p.Step, len(p.Plan.Steps))
		}
		if p.Failures >= limit || !p.Ready || w.now.Before(p.Since.Add(watch)) || w.now.Before(p.Began.Add(watch)) {
			w.t.Fatalf("%s with %+v at %s", d.Action, p, w.now)
		}
		for _, name := range p.Plan.Metrics {
			m, ok := p.latest(name)
			if !ok || m.Outcome != v1beta1.MeasurementPassed && (m.Outcome != v1beta1.MeasurementNoData || p.Plan.NoData != v1beta1.NoDataPass) {
				w.t.Fatalf("%s with metric %s %+v", d.Action, name, m)
			}
		}
	case Fail:
		if d.Reason == "" || d.Message == "" {
			w.t.Fatalf("a failure without a reason: %+v", d)
		}
	case Hold:
		if p.Failures >= limit || d.Until.Before(w.now) || d.Message == "" {
			w.t.Fatalf("held until %s at %s with %d failures: %s", d.Until, w.now, p.Failures, d.Message)
		}
		if d.Until.Equal(w.now) && !p.Due(w.now) {
			w.t.Fatalf("held until now, with nothing due: %+v", d)
		}
	default:
		w.t.Fatalf("action %q", d.Action)
	}
}

// wake moves the clock: to Until, or to some moment before it, as when a pod changes.
func (w *world) wake(d Decision) {
	wait := d.Until.Sub(w.now)
	if wait <= 0 {
		wait = time.Second // a lazy reconciler comes back all the same
	}
	if w.random.IntN(3) == 0 {
		wait = time.Duration(w.random.Int64N(int64(wait))) + 1
	}
	w.now = w.now.Add(wait)
}

// However pods and metrics behave: no step is skipped, none passes that must not, and all
// is over in a time that the plan gives.
func TestAdvance_EveryScheduleIsSafeAndEnds(t *testing.T) {
	ends := map[Action]int{}
	reasons := map[string]int{}
	for seed := range uint64(3000) {
		w := newWorld(t, seed)
		longest := time.Duration(0)
		for _, s := range w.p.Plan.Steps {
			longest += w.p.Plan.longest(s) + time.Second
		}
		d := w.look()
		for d.Action == Hold || d.Action == Proceed {
			if w.now.Sub(t0) > longest {
				t.Fatalf("seed %d: not over after %s: %+v", seed, longest, w.p)
			}
			if d.Action == Proceed {
				w.p = Progress{Plan: w.p.Plan, Step: w.p.Step + 1, Began: w.now}
			} else {
				w.wake(d)
			}
			d = w.look()
		}
		ends[d.Action]++
		reasons[d.Reason]++
	}
	if ends[Finish] < 300 || ends[Fail] < 300 || len(reasons) < 6 {
		t.Errorf("ends %v, reasons %v: not everything happens", ends, reasons)
	}
}
