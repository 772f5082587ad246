package workload

import (
	"context"
	"encoding/json"
	"sort"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/ignore"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// apply writes each child that is missing or differs, and no other.
func (r *Reconciler) apply(ctx context.Context, s *scope) error {
	s.complete = s.memory.applied == s.workload.Generation || noted(s) != nil
	s.memory.only(s.desired)
	for _, d := range s.desired {
		if err := r.settle(ctx, s, d); err != nil {
			return err
		}
	}
	s.memory.applied = s.workload.Generation
	return nil
}

// settle brings one child to what is desired, or notes what differs where it may not.
func (r *Reconciler) settle(ctx context.Context, s *scope, d *unstructured.Unstructured) error {
	live := find(s.owned, d)
	if live != nil && s.memory.asDesired[keyOf(d)] == stamp(d, live) {
		return nil
	}
	changes, err := s.differences(d, live)
	if err != nil {
		return unreadable("CompareFailed", err)
	}
	if len(changes) == 0 && !disowned(d, live) {
		s.memory.asDesired[keyOf(d)] = stamp(d, live)
		return nil
	}
	if !drifted(s, d, live, changes) {
		// A write whose answer is lost may have been done: what was written before is not what
		// stands on the child any more, and is no drift once the spec asks for it again.
		delete(s.memory.notes, keyOf(d))
		err := r.write(ctx, s, d, live, r.applyChild, r.overwrite)
		if err == nil {
			s.memory.brought(d)
		}
		return err
	}
	if s.reportOnly() && !s.due(d, live) {
		s.drift = append(s.drift, describeDrift(d, changes)...)
		r.Metrics.Drift.WithLabelValues(d.GetKind(), "reported").Add(float64(len(changes)))
		return nil
	}
	if wait := s.memory.pause(keyOf(d), strayImage(d, live) != "", s.now); wait > 0 {
		s.drift = append(s.drift, describeDrift(d, changes)...)
		s.quarrel = d.GetKind() + "/" + d.GetName()
		s.lookAgain(wait)
		return s.memory.quarrels[keyOf(d)].refused
	}
	first, second := r.overwrite, r.applyChild
	// That an apply can hold what is desired is known by the operator's notes alone. Without
	// them, an overwrite might get in what the notes, which an apply sets, would not tell of.
	if live == nil || metadataOnly(changes) || disowned(d, live) {
		first, second = second, first
	}
	if err := r.write(ctx, s, d, live, first, second); err != nil {
		s.drift = append(s.drift, describeDrift(d, changes)...)
		if isRefused(err) {
			// The first of two writes may have changed the child, which brings the next reconcile
			// at once: what is refused then is refused for ever.
			s.memory.putBack(keyOf(d), s.now, err)
		}
		return err
	}
	s.memory.brought(d)
	s.memory.putBack(keyOf(d), s.now, nil)
	s.healed = append(s.healed, describeDrift(d, changes)...)
	r.Metrics.Drift.WithLabelValues(d.GetKind(), "healed").Add(float64(len(changes)))
	return nil
}

// due says that a child is written whatever spec.drift says of drift: a canary's Deployment
// that is gone is made again, and what a new generation finds gone, or without the
// operator's notes, is brought to the new spec. Else whoever takes a note off has the
// child stay as it is for ever.
func (s *scope) due(d, live *unstructured.Unstructured) bool {
	if live == nil {
		return ofCanary(d) || !s.complete
	}
	// After a restart, a note that is gone does not tell a new generation from the last.
	return !s.complete && s.memory.applied != 0 && disowned(d, live)
}

// ownerless says that a child is not controlled by the Workload it is applied for.
func ownerless(d, live *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(live)
	return owner == nil || owner.UID != metav1.GetControllerOf(d).UID
}

// drifted tells what others changed from what the spec changed.
func drifted(s *scope, d, live *unstructured.Unstructured, changes []delta.Change) bool {
	if s.memory.notes[keyOf(d)] == notesOf(d) {
		// This process has written it so. Whatever differs was changed since, the operator's
		// notes too, or by a webhook on the way, which an apply counts as the operator's.
		return true
	}
	if live == nil {
		// A canary's Deployment comes and goes within a generation.
		return s.complete && !ofCanary(d)
	}
	if disowned(d, live) {
		// Without this, whoever changes a child and the operator's note on it would have the
		// change taken for one of the spec.
		return true
	}
	return live.GetAnnotations()[annotationDesired] == d.GetAnnotations()[annotationDesired] && beyondNotes(changes)
}

// disowned says that a child does not carry the operator's notes any more as the operator
// set them, or not in its name. A new process would not know the child for its own.
func disowned(d, live *unstructured.Unstructured) bool {
	for _, note := range []string{annotationDesired, annotationResolved} {
		if _, wanted := d.GetAnnotations()[note]; wanted && !holds(live, note) {
			return true
		}
	}
	return false
}

// beyondNotes says whether changes touch more than the operator's own annotations: those
// differ after an upgrade of the operator or in a new generation, and are no one's edit.
func beyondNotes(changes []delta.Change) bool {
	for _, c := range changes {
		if !strings.HasPrefix(c.Path, "metadata.annotations.sluice.dev/") {
			return true
		}
	}
	return false
}

func (s *scope) reportOnly() bool {
	return s.workload.Spec.Drift != nil && s.workload.Spec.Drift.Mode == v1beta1.DriftModeReport
}

func describeDrift(d *unstructured.Unstructured, changes []delta.Change) []v1beta1.DriftChange {
	out := make([]v1beta1.DriftChange, 0, len(changes))
	for _, c := range changes {
		out = append(out, v1beta1.DriftChange{
			Object: d.GetKind() + "/" + d.GetNamespace() + "/" + d.GetName(), Path: c.Path, Change: c.Kind,
		})
	}
	return out
}

// write is one request that changes a child; it returns what the API server answered.
type write func(ctx context.Context, s *scope, d, live *unstructured.Unstructured) (*unstructured.Unstructured, error)

// write brings one child to what is desired, most often in one write and at most in two.
// An apply does not remove what others added, and is refused where that and the desired
// exclude each other; an overwrite does not touch metadata. What is left after the first
// decides whether the second is needed.
func (r *Reconciler) write(ctx context.Context, s *scope, d, live *unstructured.Unstructured, first, second write) error {
	answer, err := first(ctx, s, d, live)
	if live == nil || (err != nil && !isRefused(err)) {
		if err == nil {
			s.wrote(answer)
		}
		return err
	}
	if err == nil {
		s.wrote(answer)
		live = answer
		left, err := s.differences(d, live)
		if err != nil {
			return unreadable("CompareFailed", err)
		}
		if len(left) == 0 && !disowned(d, live) {
			return nil
		}
	}
	if answer, err = second(ctx, s, d, live); err != nil {
		return err
	}
	s.wrote(answer)
	return nil
}

func metadataOnly(changes []delta.Change) bool {
	for _, c := range changes {
		if !strings.HasPrefix(c.Path, "metadata.") {
			return false
		}
	}
	return true
}

// applyChild applies a child in full but for the fields that are left to others.
func (r *Reconciler) applyChild(ctx context.Context, s *scope, d, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	logf.FromContext(ctx).Info("Applying child", "kind", d.GetKind(), "child", d.GetName())
	return r.persist(ctx, d, live, func(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		answer := d.DeepCopy()
		if live != nil {
			whole, err := r.withOwners(ctx, live, s.left(d))
			if err != nil {
				return nil, err
			}
			released, kept := ignore.Release(d, whole, s.left(d), fieldManager)
			answer = released.DeepCopy()
			// Refused when the object was replaced by another one of the same name, and, where a
			// value of others is repeated, when they have changed it since.
			answer.SetUID(live.GetUID())
			if kept {
				answer.SetResourceVersion(whole.GetResourceVersion())
			}
		}
		err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(fieldManager), client.ForceOwnership)
		if err != nil {
			return nil, about("apply", d.GetKind(), d, err)
		}
		r.Metrics.ChildWrites.WithLabelValues(d.GetKind(), "apply").Inc()
		return answer, nil
	})
}

// withOwners reads a child past the cache where it counts who owns its fields: the cache
// does not have to keep what others own.
func (r *Reconciler) withOwners(ctx context.Context, live *unstructured.Unstructured, left []ignore.Path) (*unstructured.Unstructured, error) {
	if len(left) == 0 {
		return live, nil
	}
	whole := Child(live.GroupVersionKind())
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(live), whole); err != nil {
		return nil, about("get", live.GetKind(), live, err)
	}
	return whole, nil
}

// overwrite replaces the content of a child, all but its metadata and status. This is how
// a container goes away again that someone added: an apply leaves alone what another
// manager owns, and what nobody owns since its managedFields were wiped. The resource
// version makes it fail rather than undo a write that was not seen.
func (r *Reconciler) overwrite(ctx context.Context, s *scope, d, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	logf.FromContext(ctx).Info("Overwriting child", "kind", d.GetKind(), "child", d.GetName())
	return r.persist(ctx, d, live, func(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return r.replace(ctx, s.asked(d, live), live)
	})
}

// persist tries a write again whose conflict was about the status alone: the pods'
// controller changes that all the time while it rolls out, which is no reason to leave a
// foreign container running.
func (r *Reconciler) persist(ctx context.Context, d, live *unstructured.Unstructured, once func(live *unstructured.Unstructured) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	for attempt := 1; ; attempt++ {
		answer, err := once(live)
		if live == nil || !apierrors.IsConflict(err) || attempt == limits.OverwriteAttempts {
			return answer, refused("ApplyFailed", err)
		}
		fresh := Child(d.GroupVersionKind())
		if r.Live.Get(ctx, client.ObjectKeyFromObject(d), fresh) != nil || !sameSpec(live, fresh) {
			return nil, refused("ApplyFailed", err)
		}
		live = fresh
	}
}

// sameSpec says whether nothing but metadata and status can have changed.
func sameSpec(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() && b.GetGeneration() > 0
}

func (r *Reconciler) replace(ctx context.Context, d, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(replacement(d, live))
	if err != nil {
		return nil, about("overwrite", d.GetKind(), d, err)
	}
	answer := live.DeepCopy()
	if err := r.Client.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldManager)); err != nil {
		return nil, about("overwrite", d.GetKind(), d, err)
	}
	r.Metrics.ChildWrites.WithLabelValues(d.GetKind(), "overwrite").Inc()
	return answer, nil
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// replacement is the JSON patch that turns live's content into what is desired.
func replacement(d, live *unstructured.Unstructured) []operation {
	want := delta.Completed(d, live)
	ops := []operation{
		{Op: "replace", Path: "/metadata/resourceVersion", Value: live.GetResourceVersion()},
		{Op: "replace", Path: "/metadata/uid", Value: string(live.GetUID())},
	}
	for _, field := range contentFields(want, live.Object) {
		value, wanted := want[field]
		if wanted {
			ops = append(ops, operation{Op: "add", Path: "/" + field, Value: value})
		} else {
			ops = append(ops, operation{Op: "remove", Path: "/" + field})
		}
	}
	return ops
}

// contentFields are the top-level fields of either object that hold content, sorted.
func contentFields(objects ...map[string]any) []string {
	seen := map[string]bool{"apiVersion": true, "kind": true, "metadata": true, "status": true}
	var out []string
	for _, o := range objects {
		for field := range o {
			if !seen[field] {
				seen[field] = true
				out = append(out, field)
			}
		}
	}
	sort.Strings(out)
	return out
}
