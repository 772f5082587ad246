package rollout

import (
	"fmt"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

const (
	pending     = v1beta1.PhasePending
	gating      = v1beta1.PhaseGating
	blocked     = v1beta1.PhaseBlocked
	waiting     = v1beta1.PhaseWaiting
	progressing = v1beta1.PhaseProgressing
	canary      = v1beta1.PhaseCanary
	ready       = v1beta1.PhaseReady
	degraded    = v1beta1.PhaseDegraded
	rollingBack = v1beta1.PhaseRollingBack
	paused      = v1beta1.PhasePaused
	deleting    = v1beta1.PhaseDeleting
)

// states are all phases, in the order of the API.
var states = []v1beta1.Phase{pending, gating, blocked, waiting, progressing, canary, ready, degraded, rollingBack, paused, deleting}

// initial is where a Workload starts that no reconcile has seen.
const initial = pending

// effect is what an event does to a state.
type effect int

const (
	moves effect = iota + 1
	stays
	never
)

// rule says what events do in states. to is for moves, why for the others.
type rule struct {
	on   []Event
	in   []v1beta1.Phase
	does effect
	to   v1beta1.Phase
	why  string
}

func on(e ...Event) []Event                 { return e }
func in(s ...v1beta1.Phase) []v1beta1.Phase { return s }

// table is every pair of a state and an event, exactly once.
var table = []rule{
	{on(events...), in(deleting), stays, "", "deleting is the end, whatever arrives late"},

	{on(DeleteRequested), in(pending, gating, blocked, waiting, progressing, canary, ready, degraded, rollingBack, paused), moves, deleting, ""},

	{on(PauseSet), in(pending, gating, blocked, waiting, progressing, canary, ready, degraded, rollingBack), moves, paused, ""},
	{on(PauseSet), in(paused), stays, "", "it is paused already"},
	{on(PauseCleared), in(paused), moves, pending, ""},
	{on(PauseCleared), in(pending, gating, blocked, waiting, progressing, canary, ready, degraded, rollingBack), never, "", "it was not paused"},

	{on(SpecChanged), in(gating, blocked, waiting, progressing, canary, ready, degraded, rollingBack), moves, pending, ""},
	{on(SpecChanged), in(pending), stays, "", "nothing was applied before either"},
	{on(SpecChanged), in(paused), stays, "", "it is looked at when the pause ends"},

	{on(FactsUnreadable), in(gating, blocked, waiting), moves, pending, ""},
	{on(FactsUnreadable), in(pending, progressing, canary, ready, degraded, rollingBack), stays, "", "an outage says nothing about pods that run"},

	{on(GateAllowed), in(pending, blocked, waiting), moves, gating, ""},
	{on(GateAllowed), in(gating, progressing, canary, ready, degraded, rollingBack), stays, "", "only applying goes on from here"},
	{on(GateDenied), in(pending, gating, waiting, progressing, canary, ready, degraded, rollingBack), moves, blocked, ""},
	{on(GateDenied), in(blocked), stays, "", "it is blocked already"},
	{on(GateUndecided), in(pending, blocked, waiting), moves, gating, ""},
	{on(GateUndecided), in(gating, progressing, canary, ready, degraded, rollingBack), stays, "", "an outage says nothing about pods that run"},

	{on(DependencyMissing), in(gating, progressing, canary, ready, degraded, rollingBack), moves, waiting, ""},
	{on(DependencyMissing), in(pending, blocked, waiting), never, "", "the gate is asked first"},

	{on(ChildRefused), in(pending, gating, waiting, progressing, canary, ready, degraded, rollingBack), moves, blocked, ""},
	{on(ChildRefused), in(blocked), stays, "", "it is blocked already"},
	{on(StartFailed), in(gating, blocked, waiting, progressing, canary, ready, degraded, rollingBack), moves, pending, ""},
	{on(StartFailed), in(pending), stays, "", "nothing was applied before either"},
	{on(UpdateFailed), in(pending, gating, blocked, waiting, ready, degraded), moves, progressing, ""},
	{on(UpdateFailed), in(progressing, canary, rollingBack), stays, "", "it is under way, and tried again"},

	{on(Applied), in(gating), moves, progressing, ""},
	{on(Applied), in(progressing, canary, ready, degraded, rollingBack), stays, "", "the children say how it is"},
	{on(Applied), in(pending, blocked, waiting), never, "", "nothing is applied that the gate did not let through"},

	{on(ChildrenProgressing), in(pending, gating, ready, degraded), moves, progressing, ""},
	{on(ChildrenProgressing), in(progressing), stays, "", "it is under way"},
	{on(ChildrenReady), in(pending, gating, progressing, degraded), moves, ready, ""},
	{on(ChildrenReady), in(ready), stays, "", "it is ready already"},
	{on(ChildDegraded), in(pending, gating, progressing, ready), moves, degraded, ""},
	{on(ChildDegraded), in(degraded), stays, "", "it is degraded already"},
	{on(ChildrenProgressing, ChildrenReady, ChildDegraded), in(canary, rollingBack), stays, "", "the steps decide, by their own deadline"},
	{on(ChildrenProgressing, ChildrenReady, ChildDegraded), in(blocked, waiting, paused), stays, "", "the obstacle is what a person has to know"},

	{on(CanaryStarted), in(progressing), moves, canary, ""},
	{on(CanaryStarted), in(pending, gating, blocked, waiting, canary, ready, degraded, rollingBack), never, "", "a canary starts once, after applying"},
	{on(CanaryWatched), in(canary), stays, "", "the canary goes on"},
	{on(CanaryFinished), in(canary), moves, progressing, ""},
	{on(CanaryFailed), in(canary), moves, degraded, ""},
	{on(CanaryWatched, CanaryFinished, CanaryFailed), in(pending, gating, blocked, waiting, progressing, ready, degraded, rollingBack), never, "", "there is no canary"},

	{on(RollbackStarted), in(degraded), moves, rollingBack, ""},
	{on(RollbackStarted), in(pending, gating, blocked, waiting, progressing, canary, ready, rollingBack), never, "", "a failure comes first"},
	{on(RolledBack), in(rollingBack), moves, degraded, ""},
	{on(RolledBack), in(pending, gating, blocked, waiting, progressing, canary, ready, degraded), never, "", "nothing is rolled back"},

	{
		on(FactsUnreadable, GateAllowed, GateDenied, GateUndecided, DependencyMissing, ChildRefused, StartFailed, UpdateFailed, Applied,
			CanaryStarted, CanaryWatched, CanaryFinished, CanaryFailed, RollbackStarted, RolledBack),
		in(paused), never, "", "a paused Workload is neither judged nor written",
	},
}

type pair struct {
	state v1beta1.Phase
	event Event
}

// cells is the table by pair.
var cells = func() map[pair]rule {
	out := map[pair]rule{}
	for _, r := range table {
		for _, e := range r.on {
			for _, s := range r.in {
				out[pair{s, e}] = r
			}
		}
	}
	return out
}()

// Next is the phase that an event leads to. The error says that the event cannot happen in
// that phase, and why, or that there is no such phase or event.
func Next(state v1beta1.Phase, event Event) (v1beta1.Phase, error) {
	r, ok := cells[pair{state, event}]
	switch {
	case !ok:
		return state, fmt.Errorf("phase %q, event %q: there is no such pair", state, event)
	case r.does == never:
		return state, fmt.Errorf("phase %s, event %s: it cannot happen: %s", state, event, r.why)
	case r.does == moves:
		return r.to, nil
	default:
		return state, nil
	}
}
