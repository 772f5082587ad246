package workload

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kind says what can be done about an obstacle, and so when to look again.
type kind int

const (
	// terminal: only a change by a person helps. Looked at again at a slow pace, since
	// signing an image raises no event.
	terminal kind = iota
	// waiting: something that is watched has to appear.
	waiting
	// undecided: something could not be read or decided. It says nothing about pods that
	// already run.
	undecided
	// failed: a write failed, and the children are not as they should be.
	failed
	// outdated: what was read is not current any more. Nothing is told, it is read anew.
	outdated
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

func unreadable(reason string, err error) error {
	return &obstacle{kind: undecided, reason: reason, message: err.Error(), err: err}
}

// refused sorts an error of a write. What the API server calls invalid or forbidden stays
// so until a person changes something.
func refused(reason string, err error) error {
	if err == nil {
		return nil
	}
	o := &obstacle{kind: failed, reason: reason, message: err.Error(), err: err}
	switch {
	case apierrors.IsConflict(err):
		o.kind = outdated
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		o.kind, o.reason = terminal, reasonNamespaceTerminating
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), unmergeable(err):
		o.kind, o.reason = terminal, reasonChildRefused
		o.message = "the API server refuses what the spec renders to; correct the spec, or what refuses it: " + o.message
	}
	return o
}

// unmergeable says whether the API server cannot read a child as its schema has it, as with a
// key twice in a list. It calls that an error of its own and gives no reason, but says so of
// the same child for ever.
func unmergeable(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && strings.HasPrefix(answer.Status().Message, "failed to create typed patch object ")
}

// isRefused says that a write was refused for what a child is, so that another kind of write
// may be taken.
func isRefused(err error) bool {
	o := obstacleOf(err)
	return o != nil && o.reason == reasonChildRefused && !unmergeable(o.err)
}

// obstacleOf is the obstacle in err; nil when there is none.
func obstacleOf(err error) *obstacle {
	if err == nil {
		return nil
	}
	var o *obstacle
	if errors.As(err, &o) {
		return o
	}
	return &obstacle{kind: failed, reason: reasonFailed, message: err.Error(), err: err}
}

const (
	// recheckBlocked is how soon a denied Workload is judged again: an image that gets
	// signed raises no event.
	recheckBlocked = time.Minute
	// recheckWaiting guards against a watch event that was missed.
	recheckWaiting = time.Minute
	// recheckDeleting does the same for children on their way out.
	recheckDeleting = 30 * time.Second
	// recheckOutdated is how soon the cache will have what was written meanwhile.
	recheckOutdated = 500 * time.Millisecond
)

// outcome is the one place that turns how a reconcile ended into when the next one is.
// Never both an error and a requeue. rest is when a Workload without an obstacle is
// judged again; sooner, when positive, brings it forward.
func outcome(err error, rest, sooner time.Duration) (ctrl.Result, error) {
	after := rest
	if o := obstacleOf(err); o != nil {
		switch o.kind {
		case undecided, failed:
			return ctrl.Result{}, err
		case waiting:
			after = recheckWaiting
		case terminal:
			after = recheckBlocked
		case outdated:
			after = recheckOutdated
		}
	}
	if sooner > 0 {
		after = min(after, sooner)
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// about names the object that an error is about.
func about(verb, kind string, o client.Object, err error) error {
	return fmt.Errorf("%s %s %s/%s: %w", verb, kind, o.GetNamespace(), o.GetName(), err)
}
