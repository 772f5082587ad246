package workload

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/health"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// delete deals with the children as the deletion policy says, then lets the Workload go.
// Each pass does what is left to do, so that it can be cut off anywhere.
func (r *Reconciler) delete(ctx context.Context, s *scope) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.workload, finalizer) {
		// Another finalizer holds it, and the operator has nothing here or is done.
		r.forget(client.ObjectKeyFromObject(s.workload))
		return ctrl.Result{}, nil
	}
	if err := r.readOwned(ctx, s); err != nil {
		return r.close(ctx, s, err)
	}
	if waits, err := r.letDependentsGoFirst(ctx, s); waits || err != nil {
		return r.close(ctx, s, err)
	}
	gone, err := r.dismissAll(ctx, s)
	if err != nil {
		return r.close(ctx, s, err)
	}
	if !gone {
		// The children's own deletion events bring the next reconcile; the timer guards
		// against one that was missed.
		s.lookAgain(recheckDeleting)
		return r.close(ctx, s, nil)
	}
	if err := r.release(ctx, s.workload); err != nil {
		return r.close(ctx, s, refused("FinalizerFailed", err))
	}
	r.forget(client.ObjectKeyFromObject(s.workload))
	return ctrl.Result{}, nil
}

// dismissAll deals with every child, and says whether none is left. When the cache shows
// none any more the API server is asked: a child that is not in the cache yet, or lost
// its labels, would be deleted by the garbage collector whatever the policy says.
func (r *Reconciler) dismissAll(ctx context.Context, s *scope) (bool, error) {
	if gone, err := r.dismiss(ctx, s); err != nil || !gone {
		return false, err
	}
	if err := r.sweep(ctx, s); err != nil {
		return false, err
	}
	return r.dismiss(ctx, s)
}

// sweep reads the metadata of every child, past cache and labels.
func (r *Reconciler) sweep(ctx context.Context, s *scope) error {
	s.owned = nil
	for _, gvk := range ChildKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := r.Live.List(ctx, list, client.InNamespace(s.workload.Namespace)); err != nil {
			return unreadable("ChildrenUnreadable", fmt.Errorf("list %s in %s: %w", gvk.Kind, s.workload.Namespace, err))
		}
		for i := range list.Items {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[i])
			if err != nil {
				return unreadable("ChildrenUnreadable", about("read", gvk.Kind, &list.Items[i], err))
			}
			c := &unstructured.Unstructured{Object: content}
			c.SetGroupVersionKind(gvk)
			if s.mine(c) {
				s.owned = append(s.owned, c)
			}
		}
	}
	return nil
}

// dismiss deletes or releases the children in scope, and says whether that was all there
// is to wait for. Records are of use to the Workload alone.
func (r *Reconciler) dismiss(ctx context.Context, s *scope) (bool, error) {
	orphan := s.workload.Spec.DeletionPolicy == v1beta1.DeletionPolicyOrphan
	gone := true
	for _, c := range s.owned {
		if orphan && c.GetKind() != kindRecord {
			if err := r.orphan(ctx, s, c); err != nil {
				return false, err
			}
			continue
		}
		gone = false
		kept, err := r.keepStorage(ctx, s, c)
		if err != nil {
			return false, err
		}
		if !kept {
			continue
		}
		if err := r.remove(ctx, c); err != nil {
			return false, err
		}
	}
	return gone, nil
}

// keepStorage says whether a child may be deleted without the data that the Workload
// wants to keep. A StatefulSet that was applied before the policy was changed still says
// that its claims go with it, for instance when the change was denied or the Workload is
// paused.
func (r *Reconciler) keepStorage(ctx context.Context, s *scope, c *unstructured.Unstructured) (bool, error) {
	spec := s.workload.Spec
	retain := spec.DeletionPolicy != v1beta1.DeletionPolicyDelete || (spec.Storage != nil && spec.Storage.Retain)
	if !retain || c.GetKind() != "StatefulSet" || c.GetDeletionTimestamp() != nil {
		return true, nil
	}
	live := Child(c.GroupVersionKind())
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(c), live)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, unreadable("ChildUnreadable", about("get", c.GetKind(), c, err))
	}
	policy, _, _ := unstructured.NestedString(live.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
	if policy == "Retain" {
		// Claims name the StatefulSet as owner until its controller has seen the policy.
		seen, _, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
		return seen >= live.GetGeneration(), nil
	}
	logf.FromContext(ctx).Info("Keeping volume claims: the StatefulSet would take them along", "child", c.GetName())
	patch := []byte(`{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain"}}}`)
	if err := r.Client.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager)); err != nil {
		return false, refused("ApplyFailed", about("keep the volume claims of", "StatefulSet", c, err))
	}
	r.Metrics.ChildWrites.WithLabelValues("StatefulSet", "overwrite").Inc()
	return false, nil
}

// prune deletes children that the spec no longer asks for, once the pods that may still
// use them are gone: an old ConfigMap is mounted until the rollout is through.
func (r *Reconciler) prune(ctx context.Context, s *scope) error {
	p := primary(s.owned)
	if p == nil || health.Of(p).Status != health.Healthy || s.underWay() {
		return nil
	}
	return r.keepOnly(ctx, s, func(c *unstructured.Unstructured) bool {
		return find(s.desired, c) != nil || c.GetKind() == kindRecord
	})
}

// keepOnly deletes the children that are not wanted, and forgets them.
func (r *Reconciler) keepOnly(ctx context.Context, s *scope, wanted func(*unstructured.Unstructured) bool) error {
	kept := s.owned[:0:0]
	for _, c := range s.owned {
		if wanted(c) {
			kept = append(kept, c)
			continue
		}
		if err := r.remove(ctx, c); err != nil {
			return err
		}
		s.memory.lose(keyOf(c))
	}
	s.owned = kept
	return nil
}

// remove deletes one child, and only that very one: the UID guards against an object of
// the same name that was made meanwhile.
func (r *Reconciler) remove(ctx context.Context, c *unstructured.Unstructured) error {
	if c.GetDeletionTimestamp() != nil {
		return nil
	}
	logf.FromContext(ctx).Info("Deleting child", "kind", c.GetKind(), "child", c.GetName())
	uid := c.GetUID()
	err := r.Client.Delete(ctx, c, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if client.IgnoreNotFound(err) != nil {
		return refused("DeleteFailed", about("delete", c.GetKind(), c, err))
	}
	r.Metrics.ChildWrites.WithLabelValues(c.GetKind(), "delete").Inc()
	return nil
}

// orphan takes the Workload's owner reference and the operator's label off a child.
func (r *Reconciler) orphan(ctx context.Context, s *scope, c *unstructured.Unstructured) error {
	after := c.DeepCopy()
	var owners []metav1.OwnerReference
	for _, o := range c.GetOwnerReferences() {
		if o.UID != s.workload.UID {
			owners = append(owners, o)
		}
	}
	after.SetOwnerReferences(owners)
	labels := after.GetLabels()
	delete(labels, render.LabelManagedBy)
	after.SetLabels(labels)
	err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(c, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return refused("ReleaseFailed", about("release", c.GetKind(), c, err))
	}
	r.Metrics.ChildWrites.WithLabelValues(c.GetKind(), "release").Inc()
	return nil
}

// hold adds the finalizer. It comes after the gate: what is denied never gets children
// and so needs no finalizer, and the write would be denied at admission too. The UID
// keeps the apply from creating a Workload anew that was deleted meanwhile.
func (r *Reconciler) hold(ctx context.Context, s *scope) error {
	if controllerutil.ContainsFinalizer(s.workload, finalizer) {
		return nil
	}
	u := identity(s.workload)
	u.SetFinalizers([]string{finalizer})
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(finalizerManager), client.ForceOwnership)
	if err != nil {
		return refused("FinalizerFailed", about("add the finalizer to", v1beta1.WorkloadKind, s.workload, err))
	}
	s.memory.version = u.GetResourceVersion()
	return nil
}

// release takes the finalizer off. Not by an apply, which only removes what its manager
// alone has set: a Workload that was restored from a backup came with the finalizer.
func (r *Reconciler) release(ctx context.Context, w *v1beta1.Workload) error {
	after := w.DeepCopy()
	controllerutil.RemoveFinalizer(after, finalizer)
	err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(w, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return about("take the finalizer off", v1beta1.WorkloadKind, w, err)
	}
	return nil
}
