// Package workload reconciles Workloads: it judges each with the same engine as
// admission, applies the children that were judged, and says in status what it saw.
package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/metrics"
)

const (
	// FieldManager owns every field that the operator applies.
	FieldManager = "sluice"
	// finalizerManager owns the finalizer alone: the operator applies it apart from
	// status, and two applies of one manager would take each other's fields away.
	finalizerManager = "sluice-finalizer"
	// Finalizer keeps a Workload until its children are dealt with.
	Finalizer = "sluice.dev/children"
)

// Reconciler reconciles Workloads. All fields are required.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache, for objects that the cache does not select.
	Live client.Reader
	// Judge decides.
	Judge *gather.Judge
	// Events is told about transitions.
	Events events.EventRecorder
	// Metrics counts.
	Metrics *metrics.Set
	// Observe is told every verdict; it must not block.
	Observe func(gate.Verdict)
}

// scope carries the facts of one reconcile from phase to phase.
type scope struct {
	workload  *v1beta1.Workload
	judgement *gather.Judgement
	// owned are the live children that carry this Workload's UID as controller.
	owned []*unstructured.Unstructured
	// desired are the children to apply, in order.
	desired []*unstructured.Unstructured
	// drift is what others changed, and whether it was put back.
	drift  []v1beta1.DriftChange
	healed bool
	// health of desired children, by position.
	health []delta.Health
	// conflict, missing Secrets and dependencies that hold the Workload back.
	notReady []string
}

// phase is one step. An error ends the sequence; status is written all the same.
type phase func(ctx context.Context, s *scope) error

// Reconcile brings one Workload closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w := &v1beta1.Workload{}
	if err := r.Client.Get(ctx, req.NamespacedName, w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := &scope{workload: w}
	if !w.DeletionTimestamp.IsZero() {
		return r.delete(ctx, s)
	}
	err := run(ctx, s, r.readOwned, r.respectPause, r.judge, r.waitForSecrets, r.waitForDependencies,
		r.claim, r.hold, r.apply, r.prune)
	if observeErr := r.readHealth(ctx, s); observeErr != nil && err == nil {
		err = observeErr
	}
	if statusErr := r.report(ctx, s, err); statusErr != nil {
		if apierrors.IsNotFound(statusErr) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, errors.Join(err, statusErr)
	}
	return outcome(err)
}

func run(ctx context.Context, s *scope, phases ...phase) error {
	for _, p := range phases {
		if err := p(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// delete deals with the children as the deletion policy says, then lets the Workload go.
func (r *Reconciler) delete(ctx context.Context, s *scope) (ctrl.Result, error) {
	if err := r.readOwned(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	done, err := r.dismiss(ctx, s)
	if err != nil {
		return ctrl.Result{}, errors.Join(err, r.report(ctx, s, err))
	}
	if !done {
		// The children's own deletion events bring the next reconcile; the timer guards
		// against one that was missed.
		return ctrl.Result{RequeueAfter: 30 * time.Second}, client.IgnoreNotFound(r.report(ctx, s, nil))
	}
	if err := r.release(ctx, s.workload); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, nil
}

// hold adds the finalizer. It comes after the gate: what is denied never gets children
// and so needs no finalizer, and the write would be denied at admission too.
func (r *Reconciler) hold(ctx context.Context, s *scope) error {
	for _, f := range s.workload.Finalizers {
		if f == Finalizer {
			return nil
		}
	}
	if err := r.applyFinalizers(ctx, s.workload, []any{Finalizer}); err != nil {
		return transientErr("FinalizerFailed", err)
	}
	return nil
}

func (r *Reconciler) release(ctx context.Context, w *v1beta1.Workload) error {
	return r.applyFinalizers(ctx, w, []any{})
}

// applyFinalizers names the UID, so that a Workload that was deleted meanwhile is not
// created anew by the apply.
func (r *Reconciler) applyFinalizers(ctx context.Context, w *v1beta1.Workload, finalizers []any) error {
	u := identity(w)
	_ = unstructured.SetNestedSlice(u.Object, finalizers, "metadata", "finalizers")
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(finalizerManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply finalizers of Workload %s/%s: %w", w.Namespace, w.Name, err)
	}
	return nil
}

func identity(w *v1beta1.Workload) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	u.SetName(w.Name)
	u.SetNamespace(w.Namespace)
	u.SetUID(w.UID)
	return u
}
