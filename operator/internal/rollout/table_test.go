package rollout

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

func TestTable_HasEveryPairExactlyOnce(t *testing.T) {
	seen := map[pair]int{}
	for _, r := range table {
		if (r.does == moves) != (r.to != "") || (r.does == moves) != (r.why == "") {
			t.Errorf("on %v: a move has a target, everything else a reason: %+v", r.on, r)
		}
		for _, e := range r.on {
			for _, s := range r.in {
				seen[pair{s, e}]++
				if r.does == moves && r.to == s {
					t.Errorf("%s in %s moves to itself: say that it stays", e, s)
				}
			}
		}
	}
	for _, s := range states {
		for _, e := range events {
			if n := seen[pair{s, e}]; n != 1 {
				t.Errorf("%s in %s is declared %d times", e, s, n)
			}
			delete(seen, pair{s, e})
		}
	}
	for p := range seen {
		t.Errorf("%s in %s: there is no such phase or event", p.event, p.state)
	}
}

func TestNext_DoesWhatTheTableSays(t *testing.T) {
	for _, r := range table {
		for _, e := range r.on {
			for _, s := range r.in {
				got, err := Next(s, e)
				switch {
				case r.does == moves && (got != r.to || err != nil), r.does == stays && (got != s || err != nil):
					t.Errorf("%s in %s: %s, %v", e, s, got, err)
				case r.does == never && (got != s || err == nil || !strings.Contains(err.Error(), r.why)):
					t.Errorf("%s in %s: %s, %v", e, s, got, err)
				}
			}
		}
	}
}

// The edges that people rely on, without the table's own words.
func TestNext_Edges(t *testing.T) {
	for name, c := range map[string]struct {
		from   v1beta1.Phase
		events []Event
		want   v1beta1.Phase
	}{
		"a first start":                               {pending, []Event{GateAllowed, Applied, ChildrenProgressing, ChildrenReady}, ready},
		"a first start that waits":                    {pending, []Event{GateAllowed, DependencyMissing, GateAllowed, Applied}, progressing},
		"an outage at the gate":                       {pending, []Event{GateUndecided}, gating},
		"an outage beside pods that run":              {ready, []Event{GateUndecided, FactsUnreadable}, ready},
		"a denial, and then a signature":              {ready, []Event{SpecChanged, GateDenied, GateAllowed, Applied, ChildrenReady}, ready},
		"a canary that passes":                        {progressing, []Event{CanaryStarted, CanaryWatched, CanaryWatched, CanaryFinished, ChildrenReady}, ready},
		"a canary that fails and goes back":           {canary, []Event{CanaryFailed, RollbackStarted, ChildrenProgressing, RolledBack}, degraded},
		"a canary that fails and stays":               {canary, []Event{CanaryFailed}, degraded},
		"another spec in the middle of a canary":      {canary, []Event{SpecChanged, GateAllowed, Applied, CanaryStarted}, canary},
		"another spec in the middle of a rollback":    {rollingBack, []Event{SpecChanged, GateAllowed, Applied, CanaryStarted}, canary},
		"a rolling update that fails and goes back":   {progressing, []Event{ChildDegraded, RollbackStarted, RolledBack}, degraded},
		"a child that degrades and recovers":          {ready, []Event{ChildDegraded, ChildrenProgressing, ChildrenReady}, ready},
		"a pod of a canary that degrades":             {canary, []Event{ChildDegraded}, canary},
		"a pause in a canary":                         {canary, []Event{PauseSet, SpecChanged, PauseCleared, GateAllowed, Applied, CanaryStarted}, canary},
		"a deletion, and all that may come after it":  {ready, append([]Event{DeleteRequested}, events...), deleting},
		"a child that someone else has":               {gating, []Event{ChildRefused}, blocked},
		"a write that fails before there are pods":    {gating, []Event{StartFailed}, pending},
		"a write that fails beside pods that run":     {ready, []Event{UpdateFailed}, progressing},
		"a Secret that goes missing under a workload": {ready, []Event{GateAllowed, DependencyMissing}, waiting},
	} {
		t.Run(name, func(t *testing.T) {
			state := c.from
			for _, e := range c.events {
				next, err := Next(state, e)
				if err != nil {
					t.Fatal(err)
				}
				state = next
			}
			if state != c.want {
				t.Errorf("%s, want %s", state, c.want)
			}
		})
	}
}

func TestNext_NothingIsAppliedThatTheGateDidNotLetThrough(t *testing.T) {
	for _, s := range []v1beta1.Phase{pending, blocked, waiting, paused} {
		if _, err := Next(s, Applied); err == nil {
			t.Errorf("Applied happens in %s", s)
		}
	}
}

func TestNext_KnowsOnlyItsOwnWords(t *testing.T) {
	for _, p := range []pair{{"", GateAllowed}, {"ready", GateAllowed}, {ready, ""}, {ready, "gateAllowed"}, {deleting, "Nonsense"}} {
		if _, err := Next(p.state, p.event); err == nil {
			t.Errorf("%q in %q is taken", p.event, p.state)
		}
	}
}

func TestNext_EveryPhaseIsReachedAndDeletingIsTheEnd(t *testing.T) {
	reached := map[v1beta1.Phase]bool{initial: true}
	for range states {
		for s := range reached {
			for _, e := range events {
				if next, err := Next(s, e); err == nil {
					reached[next] = true
				}
			}
		}
	}
	for _, s := range states {
		if !reached[s] {
			t.Errorf("%s is never reached", s)
		}
		if next, err := Next(s, DeleteRequested); next != deleting || err != nil {
			t.Errorf("%s cannot be deleted: %v", s, err)
		}
	}
	for _, e := range events {
		if next, err := Next(deleting, e); next != deleting || err != nil {
			t.Errorf("%s leads from Deleting to %s, %v", e, next, err)
		}
	}
}

func TestNext_AMillionRandomTransitionsStayInTheTable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	state, moved, refused := initial, 0, 0
	for range 1_000_000 {
		e := events[random.IntN(len(events))]
		declared, ok := cells[pair{state, e}]
		if !ok {
			t.Fatalf("%s in %s is not declared", e, state)
		}
		next, err := Next(state, e)
		if (err != nil) != (declared.does == never) || !slices.Contains(states, next) {
			t.Fatalf("%s in %s: %s, %v", e, state, next, err)
		}
		switch {
		case err != nil:
			refused++
		case next != state:
			moved++
		}
		if state = next; state == deleting {
			state = initial
		}
	}
	if moved < 300_000 || refused < 100_000 {
		t.Errorf("%d moves, %d refused: the walk does not get around", moved, refused)
	}
}

func TestDocs_AreThoseThatAreCommitted(t *testing.T) {
	got, err := os.ReadFile("../../../docs/rollout.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Docs(string(got))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/rollout.md is stale: run make generate")
	}
}

func TestDocs_DrawEveryMove(t *testing.T) {
	text := diagram()
	for p, r := range cells {
		if r.does != moves {
			continue
		}
		drawn := false
		for line := range strings.Lines(text) {
			edge, label, _ := strings.Cut(strings.TrimSpace(line), ": ")
			from, to, _ := strings.Cut(edge, " --> ")
			drawn = drawn || to == string(r.to) && (from == string(p.state) || from == "Any" && p.state != paused) && slices.Contains(strings.Split(label, ", "), string(p.event))
		}
		if !drawn {
			t.Errorf("%s from %s to %s is not drawn", p.event, p.state, r.to)
		}
	}
}

func TestDocs_RefuseAPageWithoutMarks(t *testing.T) {
	for _, page := range []string{"", docsBegin, docsEnd + docsBegin} {
		if _, err := Docs(page); err == nil {
			t.Errorf("%q is taken", page)
		}
	}
}
