package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/graph"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// waitForDependencies holds a first start back until what it depends on is Ready. Once
// the Workload has pods, a dependency that degrades is told and does not touch them. A
// cycle blocks it in any case, for it cannot start again once its pods are gone; its
// children are put back meanwhile.
func (r *Reconciler) waitForDependencies(ctx context.Context, s *scope) error {
	if len(s.workload.Spec.DependsOn) == 0 {
		return nil
	}
	found, reached, err := gather.Dependencies(ctx, s.workload, r.Client)
	switch {
	case errors.Is(err, graph.ErrTooLarge):
		s.unmet = &obstacle{kind: terminal, reason: reasonDependenciesTooMany, message: "spec.dependsOn: " + err.Error() + "; depend on fewer"}
	case err != nil:
		return unreadable("DependencyUnreadable", fmt.Errorf("spec.dependsOn: %w", err))
	default:
		s.unmet = unmet(s.workload, found, reached)
	}
	switch {
	case s.unmet == nil:
		return nil
	case primary(s.owned) == nil:
		return s.unmet
	case s.unmet.reason == reasonDependencyCycle:
		s.lacking = s.unmet
	}
	return nil
}

// unmet is what stands between a Workload and its first start; nil when nothing does.
func unmet(w *v1beta1.Workload, found []gather.Dependency, reached *graph.Graph) *obstacle {
	if cycle := gather.Cyclic(w, reached); cycle != nil {
		return &obstacle{kind: terminal, reason: reasonDependencyCycle, message: cycle.Error()}
	}
	var waits []string
	for i, d := range found {
		switch {
		case !d.Allowed:
			return &obstacle{kind: terminal, reason: reasonDependencyNotAllowed,
				message: fmt.Sprintf("spec.dependsOn[%d]: %s", i, gather.NotAllowed(d.Key, w.Namespace))}
		case d.Workload == nil:
			waits = append(waits, d.Key.String()+" (does not exist)")
		case !ready(d.Workload):
			waits = append(waits, d.Key.String()+" (not Ready)")
		}
	}
	if len(waits) == 0 {
		return nil
	}
	return &obstacle{kind: waiting, reason: reasonDependencyNotReady, message: "spec.dependsOn: waiting for Workload " + strings.Join(waits, ", ")}
}

// ready says whether a Workload is Ready in its current generation.
func ready(w *v1beta1.Workload) bool {
	c := meta.FindStatusCondition(w.Status.Conditions, v1beta1.ConditionReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == w.Generation
}

// letDependentsGoFirst says whether to wait with the deletion of children, since Workloads
// that need them are being deleted too and still have theirs. One that is not being deleted
// holds nothing up: what is to run is for Git to say, and it will tell of what it lacks.
// After limits.DeletionHold nobody is waited for any more, whatever holds them.
func (r *Reconciler) letDependentsGoFirst(ctx context.Context, s *scope) (bool, error) {
	age := s.now.Sub(s.workload.DeletionTimestamp.Time)
	if s.workload.Spec.DeletionPolicy == v1beta1.DeletionPolicyOrphan || len(s.owned) == 0 || begun(s.owned) || age >= limits.DeletionHold {
		return false, nil
	}
	list := &v1beta1.WorkloadList{}
	self := client.ObjectKeyFromObject(s.workload)
	if err := r.Client.List(ctx, list, client.MatchingFields{indexDependencies: self.String()}); err != nil {
		return false, unreadable("DependentsUnreadable", fmt.Errorf("list the dependents of Workload %s: %w", self, err))
	}
	leaving, staying, err := r.holding(ctx, s.workload, list.Items)
	if err != nil {
		return false, err
	}
	switch {
	case len(leaving) > 0:
		s.before = fmt.Sprintf("at most %s in all for Workloads that depend on it and are being deleted too: %s", limits.DeletionHold, strings.Join(leaving, ", "))
		s.lookAgain(min(limits.DeletionHold-age, recheckDeleting))
	case len(staying) > 0 && age < limits.DeletionGrace:
		s.before = "a moment, for Workloads that depend on it may be deleted too: " + strings.Join(staying, ", ")
		s.lookAgain(limits.DeletionGrace - age)
	}
	return s.before != "", nil
}

// begun says that children are on their way out already.
func begun(children []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(children, func(c *unstructured.Unstructured) bool { return c.GetDeletionTimestamp() != nil })
}

// holding are the dependents of a Workload that have children which need its own: those
// that are being deleted, and those that are not. Left out are those that it did not allow
// to depend on it, and those that it depends on itself.
func (r *Reconciler) holding(ctx context.Context, w *v1beta1.Workload, dependents []v1beta1.Workload) (leaving, staying []string, err error) {
	_, reached, err := gather.Dependencies(ctx, w, r.Client)
	if errors.Is(err, graph.ErrTooLarge) {
		// Whether it is in a cycle cannot be told: then nobody is waited for.
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, unreadable("DependencyUnreadable", fmt.Errorf("spec.dependsOn: %w", err))
	}
	self, known := gather.NodeOf(client.ObjectKeyFromObject(w)), map[graph.Node]*v1beta1.Workload{}
	for i := range dependents {
		d := &dependents[i]
		if !controllerutil.ContainsFinalizer(d, finalizer) || !gather.MayDependOn(d.Namespace, w.Namespace, w) {
			continue
		}
		n := gather.NodeOf(client.ObjectKeyFromObject(d))
		if known[n] = d; reached.Add(n, self) != nil {
			break
		}
	}
	for _, n := range reached.DeleteBefore(self) {
		switch d := known[n]; {
		case d == nil:
		case d.DeletionTimestamp.IsZero():
			staying = append(staying, n.String())
		default:
			leaving = append(leaving, n.String())
		}
	}
	return leaving, staying, nil
}

// awaited are the Workloads that may wait for one that is being deleted to be gone.
func awaited(_ context.Context, o client.Object) []reconcile.Request {
	w := o.(*v1beta1.Workload)
	if w.DeletionTimestamp.IsZero() {
		return nil
	}
	out := make([]reconcile.Request, 0, len(w.Spec.DependsOn))
	for _, ref := range w.Spec.DependsOn {
		out = append(out, reconcile.Request{NamespacedName: gather.DependencyKey(w, ref)})
	}
	return out
}
