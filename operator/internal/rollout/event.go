// Package rollout decides how far a change may go: which phase a Workload is in, and
// whether a canary goes on, is held, or has failed. It is pure: facts and the time come in
// as values, and nothing is remembered.
package rollout

// Event is something that one reconcile finds or does.
type Event string

// The events, in the order in which a reconcile may raise them.
const (
	// DeleteRequested: the Workload has a deletion timestamp.
	DeleteRequested Event = "DeleteRequested"
	// PauseSet: spec.paused is set.
	PauseSet Event = "PauseSet"
	// PauseCleared: spec.paused was set and is not any more.
	PauseCleared Event = "PauseCleared"
	// SpecChanged: what the spec asks for now was never applied.
	SpecChanged Event = "SpecChanged"
	// GateAllowed: the gate lets through what is to be applied, with or without warnings.
	GateAllowed Event = "GateAllowed"
	// GateDenied: the gate says no.
	GateDenied Event = "GateDenied"
	// GateUndecided: the gate could not decide.
	GateUndecided Event = "GateUndecided"
	// DependencyMissing: a Secret is not there, or a Workload not there or not Ready.
	DependencyMissing Event = "DependencyMissing"
	// ChildRefused: a child belongs to someone else, or the API server does not take it.
	ChildRefused Event = "ChildRefused"
	// StartFailed: a write failed, and there are no pods yet.
	StartFailed Event = "StartFailed"
	// UpdateFailed: a write failed beside pods that run.
	UpdateFailed Event = "UpdateFailed"
	// FactsUnreadable: something that a reconcile needs besides the gate could not be read.
	FactsUnreadable Event = "FactsUnreadable"
	// Applied: every child was written, or was as it should be.
	Applied Event = "Applied"
	// ChildrenProgressing: a child is on its way, or missing.
	ChildrenProgressing Event = "ChildrenProgressing"
	// ChildrenReady: every child is healthy and what the spec asks for.
	ChildrenReady Event = "ChildrenReady"
	// ChildDegraded: a child reports a failure, or what the spec asks for has failed before.
	ChildDegraded Event = "ChildDegraded"
	// CanaryStarted: the first pods run the new revision and are watched.
	CanaryStarted Event = "CanaryStarted"
	// CanaryWatched: the canary is held, or goes on by a step.
	CanaryWatched Event = "CanaryWatched"
	// CanaryFinished: every pod runs the new revision, and the last step passed.
	CanaryFinished Event = "CanaryFinished"
	// CanaryFailed: Advance said Fail.
	CanaryFailed Event = "CanaryFailed"
	// RollbackStarted: pods are taken back to the stable revision.
	RollbackStarted Event = "RollbackStarted"
	// RolledBack: every pod runs the stable revision again, which is not what the spec asks
	// for.
	RolledBack Event = "RolledBack"
)

// events are all of them, in that order.
var events = []Event{
	DeleteRequested, PauseSet, PauseCleared, SpecChanged, GateAllowed, GateDenied, GateUndecided, DependencyMissing,
	ChildRefused, StartFailed, UpdateFailed, FactsUnreadable, Applied, ChildrenProgressing, ChildrenReady, ChildDegraded,
	CanaryStarted, CanaryWatched, CanaryFinished, CanaryFailed, RollbackStarted, RolledBack,
}
