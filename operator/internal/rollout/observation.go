package rollout

import "github.com/sluice-dev/sluice/operator/api/v1beta1"

// Verdict is what the gate said about what is to be applied. While a rollout is taken
// back, that is the stable revision.
type Verdict int

// The verdicts. Allowed is with or without warnings.
const (
	NotAsked Verdict = iota
	Allowed
	Denied
	Undecided
)

// Obstacle is what stopped a reconcile besides the gate.
type Obstacle int

// The obstacles.
const (
	// Unobstructed: everything was written, or was as it should be.
	Unobstructed Obstacle = iota
	// Missing: a Secret or a dependency is not there.
	Missing
	// Refused: a child belongs to someone else, or the API server does not take it. Only a
	// person can help.
	Refused
	// Unreadable: something could not be read. It is tried again.
	Unreadable
	// WriteFailed: something could not be written. It is tried again.
	WriteFailed
)

// Health is the worst health among the children.
type Health int

// The healths. Progressing is also for children that are missing.
const (
	Progressing Health = iota
	Healthy
	Degraded
)

// Release is where the rollout of the current spec stands.
type Release int

// Where a rollout stands.
const (
	// Settled: the children's health says all there is.
	Settled Release = iota
	// InCanary: a canary is under way.
	InCanary
	// Failed: the canary failed, and its pods stay as they are.
	Failed
	// RollingBack: pods are being taken back to the stable revision.
	RollingBack
	// BackOnStable: they are all back, and the spec still asks for what failed.
	BackOnStable
)

// Observation is what one reconcile knows at its end.
type Observation struct {
	// Deleting: there is a deletion timestamp.
	Deleting bool
	// Paused: spec.paused is set.
	Paused bool
	// Verdict of the gate in this reconcile.
	Verdict Verdict
	// Obstacle that this reconcile met. When the gate blocks, none is looked for.
	Obstacle Obstacle
	// Applied: what the spec asks for was applied, in this reconcile or before.
	Applied bool
	// Running: the pods' controller exists, of whichever generation.
	Running bool
	// Health of the children.
	Health Health
	// Release of the current spec.
	Release Release
}

// Phase is the phase of a Workload that was observed so: where the table leads by the
// events of this reconcile. It does not depend on the phase before, so that a reconciler
// that never reads its own status says the same as one that follows the table.
func Phase(o Observation) v1beta1.Phase {
	state, _ := follow(initial, o)
	return state
}

// walk is one reconcile's way through the table. An event that is impossible ends it; the
// tests show for every phase and observation that there is none.
type walk struct {
	state  v1beta1.Phase
	raised []Event
	err    error
}

func (w *walk) raise(list ...Event) {
	for _, e := range list {
		if w.err != nil {
			return
		}
		w.state, w.err = Next(w.state, e)
		w.raised = append(w.raised, e)
	}
}

// follow raises the events of a reconcile that finds a Workload in phase from and observes
// o, in the order of the reconciler's own phases. It returns where they lead.
func follow(from v1beta1.Phase, o Observation) (v1beta1.Phase, *walk) {
	w := &walk{state: from}
	switch {
	case o.Deleting:
		w.raise(DeleteRequested)
	case o.Paused:
		w.raise(PauseSet)
	default:
		if from == paused {
			w.raise(PauseCleared)
		}
		if !o.Applied || reverted(from, o.Release) {
			w.raise(SpecChanged)
		}
		if w.gate(o) && w.obstacle(o) {
			w.release(o)
		}
	}
	return w.state, w
}

// reverted says that a rollback ended by another spec: it does not end by itself in
// anything but BackOnStable.
func reverted(from v1beta1.Phase, r Release) bool {
	return from == rollingBack && r != RollingBack && r != BackOnStable
}

// gate raises what the gate said, and says whether the reconcile went on to the children.
// Pods that were let through before are observed through an outage.
func (w *walk) gate(o Observation) bool {
	switch o.Verdict {
	case Allowed:
		w.raise(GateAllowed)
		return true
	case Denied:
		w.raise(GateDenied)
		return false
	case Undecided:
		w.raise(GateUndecided)
		return o.Applied
	default:
		return true
	}
}

// obstacle raises what stood in the way, and says whether the children decide.
func (w *walk) obstacle(o Observation) bool {
	switch {
	case o.Verdict == Undecided:
		return true
	case o.Obstacle == Refused:
		w.raise(ChildRefused)
		return false
	case o.Obstacle == WriteFailed && !o.Running:
		w.raise(StartFailed)
		return false
	case o.Obstacle == WriteFailed:
		w.raise(UpdateFailed)
		return true
	case o.Verdict != Allowed || o.Obstacle == Unreadable:
		w.raise(FactsUnreadable)
		return o.Applied
	case o.Obstacle == Missing:
		w.raise(DependencyMissing)
		return false
	default:
		w.raise(Applied)
		return true
	}
}

// release raises what the rollout and the children say.
func (w *walk) release(o Observation) {
	switch o.Release {
	case InCanary:
		if w.state == canary {
			w.raise(CanaryWatched)
			return
		}
		w.raise(ChildrenProgressing, CanaryStarted)
	case Failed:
		w.fail()
	case RollingBack:
		if w.state != rollingBack {
			w.fail()
			w.raise(RollbackStarted)
		}
	case BackOnStable:
		if w.state == rollingBack {
			w.raise(RolledBack)
			return
		}
		if w.state == canary {
			w.raise(CanaryFailed, RollbackStarted, RolledBack)
			return
		}
		w.raise(ChildDegraded)
	default:
		if w.state == canary {
			w.raise(CanaryFinished)
		}
		w.raise(healthEvent(o))
	}
}

func (w *walk) fail() {
	if w.state == canary {
		w.raise(CanaryFailed)
		return
	}
	w.raise(ChildDegraded)
}

// healthEvent is what the children say. After a write that failed they are not what the
// spec asks for, however healthy.
func healthEvent(o Observation) Event {
	switch {
	case o.Obstacle == WriteFailed && o.Verdict != Undecided, o.Health == Progressing:
		return ChildrenProgressing
	case o.Health == Healthy:
		return ChildrenReady
	default:
		return ChildDegraded
	}
}
