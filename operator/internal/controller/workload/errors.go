package workload

import (
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// kind says what can be done about an obstacle, and so when to look again.
type kind int

const (
	// terminal: only a change by a person helps. Looked at again at a slow pace, since
	// signing an image raises no event.
	terminal kind = iota
	// waiting: something that is watched has to appear.
	waiting
	// transient: trying again may help.
	transient
)

// obstacle is why a reconcile stopped short. Reason is a condition reason; message says
// what happened, where, and what to do.
type obstacle struct {
	kind    kind
	reason  string
	message string
	err     error
}

func (o *obstacle) Error() string { return o.reason + ": " + o.message }

func (o *obstacle) Unwrap() error { return o.err }

func transientErr(reason string, err error) error {
	return &obstacle{kind: transient, reason: reason, message: err.Error(), err: err}
}

const (
	// recheckBlocked is how soon a denied Workload is judged again: an image that gets
	// signed raises no event.
	recheckBlocked = time.Minute
	// recheckReady is how soon a Workload at rest is judged again: a signature or a
	// registry may be gone.
	recheckReady = 10 * time.Minute
	// recheckWaiting guards against a watch event that was missed.
	recheckWaiting = time.Minute
)

// outcome is the one place that turns how a reconcile ended into when the next one is.
// Never both an error and a requeue.
func outcome(err error) (ctrl.Result, error) {
	var o *obstacle
	switch {
	case err == nil:
		return ctrl.Result{RequeueAfter: recheckReady}, nil
	case !errors.As(err, &o) || o.kind == transient:
		return ctrl.Result{}, err
	case o.kind == waiting:
		return ctrl.Result{RequeueAfter: recheckWaiting}, nil
	default:
		return ctrl.Result{RequeueAfter: recheckBlocked}, nil
	}
}
