package rollout

import (
	"testing"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// observations are all that there are.
func observations() []Observation {
	var out []Observation
	both := []bool{false, true}
	for _, d := range both {
		for _, p := range both {
			for _, a := range both {
				for _, r := range both {
					for v := NotAsked; v <= Undecided; v++ {
						for o := Unobstructed; o <= WriteFailed; o++ {
							for h := Progressing; h <= Degraded; h++ {
								for l := Settled; l <= BackOnStable; l++ {
									out = append(out, Observation{Deleting: d, Paused: p, Applied: a, Running: r, Verdict: v, Obstacle: o, Health: h, Release: l})
								}
							}
						}
					}
				}
			}
		}
	}
	return out
}

// One reconcile raises the events of what it observes, one after the other. From whichever
// phase the last one left, each of them has to be in the table, and the last has to lead to
// the phase that is written into status.
func TestPhase_IsWhereTheTableLeadsFromEveryPhase(t *testing.T) {
	raised, ended := map[Event]bool{}, map[v1beta1.Phase]bool{}
	n := 0
	for _, o := range observations() {
		want := Phase(o)
		ended[want] = true
		for _, from := range states {
			if from == deleting && !o.Deleting {
				continue // what is being deleted stays so
			}
			n++
			got, w := follow(from, o)
			if w.err != nil || got != want {
				t.Fatalf("from %s by %v to %s, want %s for %+v: %v", from, w.raised, got, want, o, w.err)
			}
			for _, e := range w.raised {
				raised[e] = true
			}
		}
	}
	if n < 50_000 {
		t.Errorf("only %d pairs of a phase and an observation", n)
	}
	for _, e := range events {
		if !raised[e] {
			t.Errorf("no reconcile raises %s", e)
		}
	}
	for _, s := range states {
		if !ended[s] {
			t.Errorf("no observation is %s", s)
		}
	}
}

func TestPhase_Sentences(t *testing.T) {
	running := Observation{Verdict: Allowed, Applied: true, Running: true, Health: Healthy}
	with := func(change func(*Observation)) Observation {
		o := running
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		o    Observation
		want v1beta1.Phase
	}{
		"nothing is known yet":                                {Observation{}, pending},
		"children are on their way":                           {with(func(o *Observation) { o.Health = Progressing }), progressing},
		"every child is healthy":                              {running, ready},
		"a child is degraded":                                 {with(func(o *Observation) { o.Health = Degraded }), degraded},
		"the gate denies a first spec":                        {Observation{Verdict: Denied}, blocked},
		"the gate denies an update":                           {with(func(o *Observation) { o.Verdict, o.Applied = Denied, false }), blocked},
		"the gate denies what runs":                           {with(func(o *Observation) { o.Verdict = Denied }), blocked},
		"the gate cannot decide on a first spec":              {Observation{Verdict: Undecided}, gating},
		"the gate cannot decide on an update":                 {with(func(o *Observation) { o.Verdict, o.Applied = Undecided, false }), gating},
		"the gate cannot decide on what runs":                 {with(func(o *Observation) { o.Verdict = Undecided }), ready},
		"the gate cannot decide on what is degraded":          {with(func(o *Observation) { o.Verdict, o.Health = Undecided, Degraded }), degraded},
		"a Secret is missing at first":                        {Observation{Verdict: Allowed, Obstacle: Missing}, waiting},
		"a Secret goes missing under pods":                    {with(func(o *Observation) { o.Obstacle = Missing }), waiting},
		"a child belongs to someone else":                     {with(func(o *Observation) { o.Obstacle = Refused }), blocked},
		"a Secret cannot be read at first":                    {Observation{Verdict: Allowed, Obstacle: Unreadable}, pending},
		"a Secret cannot be read beside pods":                 {with(func(o *Observation) { o.Obstacle = Unreadable }), ready},
		"a first write fails":                                 {Observation{Verdict: Allowed, Obstacle: WriteFailed}, pending},
		"a write fails beside healthy pods":                   {with(func(o *Observation) { o.Obstacle = WriteFailed }), progressing},
		"a write fails beside degraded pods":                  {with(func(o *Observation) { o.Obstacle, o.Health = WriteFailed, Degraded }), progressing},
		"reading the children fails before the gate":          {Observation{Obstacle: Unreadable, Running: true}, pending},
		"paused, whatever else":                               {with(func(o *Observation) { o.Paused, o.Verdict, o.Release = true, Denied, InCanary }), paused},
		"deleted while paused":                                {with(func(o *Observation) { o.Paused, o.Deleting = true, true }), deleting},
		"a canary runs":                                       {with(func(o *Observation) { o.Release = InCanary }), canary},
		"a canary runs, and a child is degraded":              {with(func(o *Observation) { o.Release, o.Health = InCanary, Degraded }), canary},
		"a canary runs through an outage of the gate":         {with(func(o *Observation) { o.Release, o.Verdict = InCanary, Undecided }), canary},
		"a write fails in a canary":                           {with(func(o *Observation) { o.Release, o.Obstacle = InCanary, WriteFailed }), canary},
		"a canary runs, and the gate takes its word back":     {with(func(o *Observation) { o.Release, o.Verdict = InCanary, Denied }), blocked},
		"a canary failed, and its healthy pods stay":          {with(func(o *Observation) { o.Release = Failed }), degraded},
		"pods go back to the stable revision":                 {with(func(o *Observation) { o.Release = RollingBack }), rollingBack},
		"pods go back, and some are degraded":                 {with(func(o *Observation) { o.Release, o.Health = RollingBack, Degraded }), rollingBack},
		"all are back and healthy, and the spec asks for it":  {with(func(o *Observation) { o.Release = BackOnStable }), degraded},
		"a value that there is not counts as the careful one": {Observation{Verdict: 99, Obstacle: 99, Health: 99, Release: 99, Applied: true}, degraded},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Phase(c.o); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
