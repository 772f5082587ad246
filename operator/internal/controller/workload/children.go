package workload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

const (
	// annotationDesired is a hash of what was applied. A child that differs although the
	// hash is the current one was changed by someone else: drift, and not a new spec.
	annotationDesired = "sluice.dev/desired-hash"
	// annotationResolved on the pods' controller holds the digests that tags were resolved
	// to, and for which generation.
	annotationResolved = "sluice.dev/resolved-images"
)

// ChildKinds are the kinds that a Workload renders to.
var ChildKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "ConfigMap"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Version: "v1", Kind: "Service"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "batch", Version: "v1", Kind: "CronJob"},
}

// Child returns an empty object of a child kind.
func Child(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// readOwned lists the children in the cache. Ownership is by the owner's UID: labels can
// be set by anyone.
func (r *Reconciler) readOwned(ctx context.Context, s *scope) error {
	for _, gvk := range ChildKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := r.Client.List(ctx, list, client.InNamespace(s.workload.Namespace),
			client.MatchingLabels{render.LabelManagedBy: render.ManagedBy, render.LabelInstance: s.workload.Name})
		if err != nil {
			return transientErr("ChildrenUnreadable", fmt.Errorf("list %s in %s: %w", gvk.Kind, s.workload.Namespace, err))
		}
		for i := range list.Items {
			if metav1.IsControlledBy(&list.Items[i], s.workload) {
				s.owned = append(s.owned, &list.Items[i])
			}
		}
	}
	return nil
}

// primary is the controller of the pods among the children.
func primary(children []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, c := range children {
		if c.GetKind() == "Deployment" || c.GetKind() == "StatefulSet" {
			return c
		}
	}
	return nil
}

func find(children []*unstructured.Unstructured, like *unstructured.Unstructured) *unstructured.Unstructured {
	for _, c := range children {
		if c.GetName() == like.GetName() && c.GroupVersionKind() == like.GroupVersionKind() {
			return c
		}
	}
	return nil
}

type resolved struct {
	Generation int64             `json:"generation"`
	Digests    map[string]string `json:"digests"`
}

// resolvedBefore reads back what tags were resolved to for this generation. It stands on
// the child and not in status, which anyone with rights to it may forge; the digests are
// verified again in any case.
func resolvedBefore(s *scope) map[string]string {
	p := primary(s.owned)
	if p == nil {
		return nil
	}
	var r resolved
	if err := json.Unmarshal([]byte(p.GetAnnotations()[annotationResolved]), &r); err != nil || r.Generation != s.workload.Generation {
		return nil
	}
	return r.Digests
}

// claim makes the objects to apply, and refuses when one of them exists and belongs to
// someone else.
func (r *Reconciler) claim(ctx context.Context, s *scope) error {
	desired, err := assemble(s)
	if err != nil {
		return transientErr("RenderFailed", err)
	}
	for _, d := range desired {
		if find(s.owned, d) != nil {
			continue
		}
		// The cache holds only what carries the operator's label: what someone else made is
		// seen by asking the API server.
		existing := Child(d.GroupVersionKind())
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(d), existing)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return transientErr("ChildUnreadable", fmt.Errorf("get %s %s/%s: %w", d.GetKind(), d.GetNamespace(), d.GetName(), err))
		}
		if !metav1.IsControlledBy(existing, s.workload) {
			return &obstacle{kind: terminal, reason: reasonConflict, message: conflict(existing)}
		}
		s.owned = append(s.owned, existing)
	}
	s.desired = desired
	return nil
}

func conflict(existing *unstructured.Unstructured) string {
	owner := "nobody"
	if c := metav1.GetControllerOf(existing); c != nil {
		owner = c.Kind + " " + c.Name
	}
	return fmt.Sprintf("%s %s/%s exists and is controlled by %s: it is left alone; rename the Workload or delete that object",
		existing.GetKind(), existing.GetNamespace(), existing.GetName(), owner)
}

// assemble turns the judged children into what is applied: with the digests that were
// verified, an owner, and the annotations that the next reconcile reads.
func assemble(s *scope) ([]*unstructured.Unstructured, error) {
	w := s.workload
	owner := metav1.NewControllerRef(w, v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	notes, err := json.Marshal(resolved{Generation: w.Generation, Digests: s.judgement.Digests})
	if err != nil {
		return nil, fmt.Errorf("record of resolved images: %w", err)
	}
	var out []*unstructured.Unstructured
	for _, content := range s.judgement.Deployable() {
		u := &unstructured.Unstructured{Object: content}
		hash, err := contentHash(u)
		if err != nil {
			return nil, err
		}
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotationDesired] = hash
		if primary([]*unstructured.Unstructured{u}) != nil {
			annotations[annotationResolved] = string(notes)
		}
		u.SetAnnotations(annotations)
		u.SetOwnerReferences([]metav1.OwnerReference{*owner})
		out = append(out, u)
	}
	return out, nil
}

func contentHash(u *unstructured.Unstructured) (string, error) {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return "", fmt.Errorf("hash %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// apply writes each child that is missing or differs, and no other.
func (r *Reconciler) apply(ctx context.Context, s *scope) error {
	report := s.workload.Spec.Drift != nil && s.workload.Spec.Drift.Mode == v1beta1.DriftModeReport
	for _, d := range s.desired {
		live := find(s.owned, d)
		if live == nil {
			if err := r.write(ctx, s, d, nil); err != nil {
				return err
			}
			continue
		}
		changes, err := delta.Compare(d, live)
		if err != nil {
			return transientErr("CompareFailed", err)
		}
		if len(changes) == 0 {
			continue
		}
		if drifted := live.GetAnnotations()[annotationDesired] == d.GetAnnotations()[annotationDesired] && ours(changes); drifted {
			s.note(d, changes)
			s.healed = !report
			r.countDrift(d, changes, report)
			if report {
				continue
			}
		}
		if err := r.write(ctx, s, d, foreign(live, changes)); err != nil {
			return err
		}
	}
	return nil
}

// ours says whether changes touch more than the operator's own annotations: those differ
// after an upgrade of the operator and are no one's edit.
func ours(changes []delta.Change) bool {
	for _, c := range changes {
		if !strings.HasPrefix(c.Path, "metadata.annotations.sluice.dev/") {
			return true
		}
	}
	return false
}

func (r *Reconciler) countDrift(d *unstructured.Unstructured, changes []delta.Change, report bool) {
	action := "healed"
	if report {
		action = "reported"
	}
	r.Metrics.Drift.WithLabelValues(d.GetKind(), action).Add(float64(len(changes)))
}

func (s *scope) note(d *unstructured.Unstructured, changes []delta.Change) {
	for _, c := range changes {
		s.drift = append(s.drift, v1beta1.DriftChange{
			Object: d.GetKind() + "/" + d.GetNamespace() + "/" + d.GetName(), Path: c.Path, Change: c.Kind,
		})
	}
}

// foreign returns live when it holds fields that were never applied: an apply alone does
// not remove what another manager owns.
func foreign(live *unstructured.Unstructured, changes []delta.Change) *unstructured.Unstructured {
	for _, c := range changes {
		if c.Kind == delta.Added {
			return live
		}
	}
	return nil
}

// write applies one child, taking over first what others added to it.
func (r *Reconciler) write(ctx context.Context, s *scope, d, takeOver *unstructured.Unstructured) error {
	log := logf.FromContext(ctx)
	if takeOver != nil {
		log.Info("Taking over fields that others added", "kind", d.GetKind(), "child", d.GetName())
		if err := r.takeOver(ctx, takeOver); err != nil {
			return transientErr("ApplyFailed", err)
		}
		r.Metrics.ChildWrites.WithLabelValues(d.GetKind(), "takeover").Inc()
	}
	log.Info("Applying child", "kind", d.GetKind(), "child", d.GetName())
	applied := d.DeepCopy()
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(FieldManager), client.ForceOwnership)
	if err != nil {
		return transientErr("ApplyFailed", fmt.Errorf("apply %s %s/%s: %w", d.GetKind(), d.GetNamespace(), d.GetName(), err))
	}
	r.Metrics.ChildWrites.WithLabelValues(d.GetKind(), "apply").Inc()
	s.replace(applied)
	return nil
}

// replace keeps what the API server answered: it is newer than the cache.
func (s *scope) replace(applied *unstructured.Unstructured) {
	for i, c := range s.owned {
		if c.GetName() == applied.GetName() && c.GroupVersionKind() == applied.GroupVersionKind() {
			s.owned[i] = applied
			return
		}
	}
	s.owned = append(s.owned, applied)
}

// prune deletes children that the spec no longer asks for, once the pods that may still
// use them are gone: an old ConfigMap is mounted until the rollout is through.
func (r *Reconciler) prune(ctx context.Context, s *scope) error {
	p := primary(s.owned)
	if p == nil {
		return nil
	}
	if h, err := delta.HealthOf(p); err != nil || h.Status != delta.Healthy {
		return err
	}
	kept := s.owned[:0:0]
	for _, c := range s.owned {
		if find(s.desired, c) != nil {
			kept = append(kept, c)
			continue
		}
		if err := r.remove(ctx, c); err != nil {
			return transientErr("PruneFailed", err)
		}
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
		return fmt.Errorf("delete %s %s/%s: %w", c.GetKind(), c.GetNamespace(), c.GetName(), err)
	}
	r.Metrics.ChildWrites.WithLabelValues(c.GetKind(), "delete").Inc()
	return nil
}

// dismiss deletes or releases every child, and says whether none is left.
func (r *Reconciler) dismiss(ctx context.Context, s *scope) (bool, error) {
	for _, c := range s.owned {
		if s.workload.Spec.DeletionPolicy == v1beta1.DeletionPolicyOrphan {
			if err := r.orphan(ctx, c); err != nil {
				return false, err
			}
			continue
		}
		if err := r.remove(ctx, c); err != nil {
			return false, err
		}
	}
	return len(s.owned) == 0 || s.workload.Spec.DeletionPolicy == v1beta1.DeletionPolicyOrphan, nil
}

// orphan takes the owner reference and the operator's label off a child.
func (r *Reconciler) orphan(ctx context.Context, c *unstructured.Unstructured) error {
	before := c.DeepCopy()
	c.SetOwnerReferences(nil)
	labels := c.GetLabels()
	delete(labels, render.LabelManagedBy)
	c.SetLabels(labels)
	err := r.Client.Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release %s %s/%s: %w", c.GetKind(), c.GetNamespace(), c.GetName(), err)
	}
	r.Metrics.ChildWrites.WithLabelValues(c.GetKind(), "release").Inc()
	return nil
}

// readHealth judges the children as they are now. It runs whatever stopped the phases:
// what was running keeps running, and status says how.
func (r *Reconciler) readHealth(_ context.Context, s *scope) error {
	for _, c := range s.owned {
		h, err := delta.HealthOf(c)
		if err != nil {
			return transientErr("HealthUnknown", err)
		}
		s.health = append(s.health, h)
	}
	return nil
}
