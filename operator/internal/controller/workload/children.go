package workload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/ignore"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

const (
	// annotationDesired is a hash of what was applied. A child that differs although the
	// hash is the current one was changed by someone else: drift, and not a new spec.
	annotationDesired = "sluice.dev/desired-hash"
	// annotationResolved on the pods' controller holds the digests that tags were resolved
	// to, and for which generation. It is the last child to be applied, so this also says
	// that the generation's other children have been there.
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
	recordKind,
}

// Child returns an empty object of a child kind.
func Child(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// readOwned lists the children in the cache, and asks the API server for those that the
// cache does not show as the operator left them.
func (r *Reconciler) readOwned(ctx context.Context, s *scope) error {
	for _, gvk := range ChildKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := r.Client.List(ctx, list, client.InNamespace(s.workload.Namespace),
			client.MatchingFields{indexInstance: s.workload.Name},
			client.MatchingLabels{render.LabelManagedBy: render.ManagedBy, render.LabelInstance: s.workload.Name})
		if err != nil {
			return unreadable("ChildrenUnreadable", fmt.Errorf("list %s in %s: %w", gvk.Kind, s.workload.Namespace, err))
		}
		for i := range list.Items {
			if s.mine(&list.Items[i]) || adoptable(&list.Items[i]) {
				s.owned = append(s.owned, &list.Items[i])
			}
		}
	}
	if err := r.catchUp(ctx, s); err != nil {
		return err
	}
	for _, c := range s.owned {
		s.memory.children[keyOf(c)] = c.GetUID()
	}
	return nil
}

// catchUp replaces children that the cache does not have as they were written last. Acting
// on an old one would put back what was put back already, or tell of pods that are gone.
func (r *Reconciler) catchUp(ctx context.Context, s *scope) error {
	for key, version := range s.memory.written {
		cached := findKey(s.owned, key)
		if cached != nil && !older(cached.GetResourceVersion(), version) {
			delete(s.memory.written, key)
			continue
		}
		live := Child(key.GroupVersionKind)
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.workload.Namespace, Name: key.name}, live)
		if client.IgnoreNotFound(err) != nil {
			return unreadable("ChildUnreadable", fmt.Errorf("get %s %s/%s: %w", key.Kind, s.workload.Namespace, key.name, err))
		}
		s.drop(key)
		if err == nil && s.mine(live) {
			s.owned = append(s.owned, live)
			continue
		}
		delete(s.memory.written, key)
	}
	return nil
}

func (s *scope) drop(key childKey) {
	kept := s.owned[:0:0]
	for _, c := range s.owned {
		if keyOf(c) != key {
			kept = append(kept, c)
		}
	}
	s.owned = kept
}

// primary is the controller of the pods among the children; a canary's own Deployment is
// none.
func primary(children []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, c := range children {
		if isPodsController(c) && !ofCanary(c) {
			return c
		}
	}
	return nil
}

// ofCanary says whether a child is the Deployment of a canary. It goes by the selector,
// which nobody can change: a label that someone puts on the Workload's own Deployment, or
// takes off the canary's, would have the one taken for the other.
func ofCanary(c *unstructured.Unstructured) bool {
	track, _, _ := unstructured.NestedString(c.Object, "spec", "selector", "matchLabels", labelTrack)
	return track == trackCanary && c.GetKind() == "Deployment"
}

func isPodsController(c *unstructured.Unstructured) bool {
	return c.GetKind() == "Deployment" || c.GetKind() == "StatefulSet"
}

func find(children []*unstructured.Unstructured, like *unstructured.Unstructured) *unstructured.Unstructured {
	return findKey(children, keyOf(like))
}

func findKey(children []*unstructured.Unstructured, key childKey) *unstructured.Unstructured {
	for _, c := range children {
		if keyOf(c) == key {
			return c
		}
	}
	return nil
}

type resolved struct {
	Generation int64             `json:"generation"`
	Digests    map[string]string `json:"digests"`
}

// resolvedBefore is what tags were resolved to for this generation: as remembered, or
// after a restart as noted on the child. It is never read from status, which is an
// output; and whatever it says, signatures of those digests are verified again.
func resolvedBefore(s *scope) map[string]string {
	if s.memory.resolved.Generation == s.workload.Generation {
		return s.memory.resolved.Digests
	}
	return noted(s)
}

// noted reads what stands on the pods' controller for this generation. A note that
// someone else wrote counts as none: it could name an older image whose signature is just
// as good.
func noted(s *scope) map[string]string {
	p := primary(s.owned)
	if p == nil || !holds(p, annotationResolved) {
		return nil
	}
	var r resolved
	if err := json.Unmarshal([]byte(p.GetAnnotations()[annotationResolved]), &r); err != nil || r.Generation != s.workload.Generation || !allDigests(r.Digests) {
		return nil
	}
	return r.Digests
}

// allDigests says whether every image that was read back stands for a digest.
func allDigests(known map[string]string) bool {
	for _, digest := range known {
		if !digests.Valid(digest) {
			return false
		}
	}
	return true
}

// holds says whether an annotation is there and the operator was the last to set it.
func holds(c *unstructured.Unstructured, annotation string) bool {
	if _, ok := c.GetAnnotations()[annotation]; !ok {
		return false
	}
	for _, e := range c.GetManagedFields() {
		if e.Manager != fieldManager || e.Operation != metav1.ManagedFieldsOperationApply || e.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if err := json.Unmarshal(e.FieldsV1.Raw, &fields); err != nil {
			return false
		}
		_, ok := fields.Metadata.Annotations["f:"+annotation]
		return ok
	}
	return false
}

// claim makes the objects to apply, and refuses when one of them exists and belongs to
// someone else.
func (r *Reconciler) claim(ctx context.Context, s *scope) error {
	s.memory.resolved = resolved{Generation: s.workload.Generation, Digests: s.judgement.Digests}
	desired, err := assemble(s)
	if err != nil {
		return unreadable("RenderFailed", err)
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
			return unreadable("ChildUnreadable", about("get", d.GetKind(), d, err))
		}
		if !s.mine(existing) && (!adoptable(existing) || s.ofAnother(existing)) {
			return &obstacle{kind: terminal, reason: reasonConflict, message: conflict(existing, s.workload)}
		}
		s.owned = append(s.owned, existing)
	}
	s.desired = desired
	return nil
}

func conflict(existing *unstructured.Unstructured, w *v1beta1.Workload) string {
	owner := "is controlled by nobody"
	if c := metav1.GetControllerOf(existing); c != nil {
		owner = "is controlled by " + c.Kind + " " + c.Name
		if c.UID == w.UID {
			owner = "names this Workload as its controller, which did not make it"
		}
	}
	return fmt.Sprintf("%s %s/%s exists and %s: it is left alone; rename the Workload or delete that object",
		existing.GetKind(), existing.GetNamespace(), existing.GetName(), owner)
}

// assemble turns the judged children into what is applied: with the digests that were
// verified, an owner, and the annotations that the next reconcile reads. The pods'
// controller comes last.
func assemble(s *scope) ([]*unstructured.Unstructured, error) {
	owner := metav1.NewControllerRef(s.workload, v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	notes, err := json.Marshal(s.memory.resolved)
	if err != nil {
		return nil, fmt.Errorf("record of resolved images: %w", err)
	}
	next := nextMark(marked(s), primary(s.owned), s.seen, s.incomplete)
	s.memory.mark = &next
	seen, err := json.Marshal(next)
	if err != nil {
		return nil, fmt.Errorf("record of referenced objects: %w", err)
	}
	children, err := s.shape(s.judgement.Deployable())
	if err != nil {
		return nil, err
	}
	way, err := json.Marshal(s.release.course)
	if err != nil {
		return nil, fmt.Errorf("record of the rollout: %w", err)
	}
	var out, last []*unstructured.Unstructured
	for _, content := range children {
		u := &unstructured.Unstructured{Object: content}
		pods, canary := isPodsController(u), ofCanary(u)
		revision := revisionOf([]map[string]any{content})
		if canary {
			revision = s.release.revision
		}
		if pods {
			its := next
			if c := s.release.course; s.twoRevisions() && revision != s.release.revision && c.Mark != nil {
				its = *c.Mark
			}
			if err := stampPods(u, its); err != nil {
				return nil, about("mark the pod template of", u.GetKind(), u, err)
			}
		}
		hash, err := contentHash(u, s.left(u))
		if err != nil {
			return nil, err
		}
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotationDesired] = hash
		if pods {
			annotations[annotationResolved] = string(notes)
			// Also where nothing is referred to: without it, what is referred to first after a
			// restart would be taken for what the pods have had all along.
			annotations[annotationMark] = string(seen)
		}
		if pods && watchful(&s.workload.Spec) {
			annotations[annotationRevision] = revision
		}
		if pods && !canary && s.release.course != nil {
			annotations[annotationRollout] = string(way)
		}
		u.SetAnnotations(annotations)
		u.SetOwnerReferences([]metav1.OwnerReference{*owner})
		if pods {
			last = append(last, u)
		} else {
			out = append(out, u)
		}
	}
	return append(out, last...), nil
}

// contentHash stands for what is asked of a child. Fields that are left to others are not,
// and that they are left is: when they come back to the operator, that is no drift.
func contentHash(u *unstructured.Unstructured, left []ignore.Path) (string, error) {
	var content any = u.Object
	if len(left) > 0 {
		content = []any{ignore.Drop(u.Object, left), left}
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return "", about("hash", u.GetKind(), u, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}
