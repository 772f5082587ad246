package workload

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/rollout"
)

var recordKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kindRecord}

// record is the stable revision: the last spec whose pods were all ready, and the digests
// that its tags stood for. It is kept as a ControllerRevision, the kind in which Kubernetes
// keeps such things, and judged again before anything comes of it.
type record struct {
	// Revision of its pod template, and Digest of its main image.
	Revision string               `json:"revision"`
	Digest   string               `json:"digest"`
	Spec     v1beta1.WorkloadSpec `json:"spec"`
	Digests  map[string]string    `json:"digests"`
	// name of the object.
	name string
}

// workload is the Workload as it was, with as many pods as it has to have now.
func (k *record) workload(now *v1beta1.Workload) *v1beta1.Workload {
	w := now.DeepCopy()
	replicas := w.Spec.Replicas
	k.Spec.DeepCopyInto(&w.Spec)
	w.Spec.Replicas = replicas
	return w
}

// recorded is the newest record among the children; nil where there is none that can be
// read.
func (s *scope) recorded() *record {
	var newest int64 = -1
	var out *record
	for _, c := range s.owned {
		if c.GetKind() != kindRecord || c.GetDeletionTimestamp() != nil {
			continue
		}
		number, _, _ := unstructured.NestedInt64(c.Object, "revision")
		data, _, _ := unstructured.NestedMap(c.Object, "data")
		raw, err := json.Marshal(data)
		k := &record{}
		if err != nil || json.Unmarshal(raw, k) != nil || k.Revision == "" || number <= newest || !allDigests(k.Digests) {
			continue
		}
		k.name = c.GetName()
		newest, out = number, k
	}
	return out
}

// keepStable records what runs as the stable revision once all of it is ready, and drops
// the records before it. It comes last: what is dropped is what a rollback would need.
func (r *Reconciler) keepStable(ctx context.Context, s *scope) error {
	rel := &s.release
	if !watchful(&s.workload.Spec) {
		// Later, what was stable once would be taken for what runs.
		return r.dropRecords(ctx, s)
	}
	if rel.stage != rollout.Settled || rel.back || !s.serves(primary(s.owned)) {
		return nil
	}
	if c := rel.course; c != nil && !c.Done {
		return nil
	}
	if rel.stable == nil || rel.stable.Revision != rel.revision || asked(&rel.stable.Spec) != asked(&s.workload.Spec) {
		k := &record{
			Revision: rel.revision, Digest: s.judgement.Digests[s.workload.Spec.Image],
			Spec: *s.workload.Spec.DeepCopy(), Digests: s.judgement.Digests,
			name: render.RecordName(s.workload.Name, rel.revision, s.workload.Generation),
		}
		if err := r.write(ctx, s, s.recordObject(k), nil, r.applyChild, r.applyChild); err != nil {
			return err
		}
		rel.stable = k
	}
	s.memory.stable = rel.stable
	s.memory.course, rel.course = nil, nil
	return r.dropRecords(ctx, s)
}

// recordObject is the ControllerRevision of a record.
func (s *scope) recordObject(k *record) *unstructured.Unstructured {
	raw, err := json.Marshal(k)
	content := map[string]any{}
	if err == nil {
		err = json.Unmarshal(raw, &content)
	}
	if err != nil {
		// It is made of what came from JSON.
		panic(fmt.Sprintf("record of %s/%s: %v", s.workload.Namespace, s.workload.Name, err))
	}
	u := Child(recordKind)
	u.SetName(k.name)
	u.SetNamespace(s.workload.Namespace)
	u.SetLabels(render.ClaimLabels(s.workload.Name))
	u.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(s.workload, v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))})
	u.Object["data"] = content
	u.Object["revision"] = s.workload.Generation
	return u
}

// keepRecord puts the record back that someone deleted or changed: without one, what is new
// would go to every pod at once.
func (r *Reconciler) keepRecord(ctx context.Context, s *scope) error {
	k := s.release.stable
	if k == nil {
		return nil
	}
	d := s.recordObject(k)
	live := find(s.owned, d)
	if live != nil {
		// What it records cannot be changed, and its number is that of when it was made.
		d.Object["data"], d.Object["revision"] = live.Object["data"], live.Object["revision"]
		if s.memory.asDesired[keyOf(d)] == stamp(d, live) {
			return nil
		}
	}
	changes, err := s.differences(d, live)
	if err != nil {
		return unreadable("CompareFailed", err)
	}
	if len(changes) == 0 {
		s.memory.asDesired[keyOf(d)] = stamp(d, live)
		return nil
	}
	return r.write(ctx, s, d, live, r.applyChild, r.applyChild)
}

// dropRecords deletes all records but that of the stable revision.
func (r *Reconciler) dropRecords(ctx context.Context, s *scope) error {
	stable := ""
	if s.release.stable != nil {
		stable = s.release.stable.name
	}
	return r.keepOnly(ctx, s, func(c *unstructured.Unstructured) bool {
		return c.GetKind() != kindRecord || c.GetName() == stable
	})
}
