package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// podsController is the one that is no canary.
func (b *bench) podsController(w *v1beta1.Workload) *unstructured.Unstructured {
	b.t.Helper()
	if w.Spec.Storage != nil {
		return b.child("StatefulSet", w.Name)
	}
	return b.child("Deployment", w.Name)
}

// Whoever deletes the pods' controller in the middle of a canary, or hides it, does not get
// the new revision everywhere.
func TestRollout_ALostControllerIsNoWayAroundTheSteps(t *testing.T) {
	deleted := func(b *bench, w *v1beta1.Workload) {
		if err := api.Delete(b.t.Context(), b.podsController(w)); err != nil {
			b.t.Fatal(err)
		}
	}
	hidden := func(b *bench, w *v1beta1.Workload) {
		b.edit(b.podsController(w).GetKind(), w.Name, func(c *unstructured.Unstructured) { c.SetLabels(nil) })
	}
	for name, lose := range map[string]func(*bench, *v1beta1.Workload){"deleted": deleted, "without labels": hidden} {
		for kind, change := range map[string]func(*v1beta1.Workload){"a Deployment": full, "a StatefulSet": everything} {
			for when, restart := range map[string]bool{"": false, ", and a restart": true} {
				t.Run(kind+", "+name+when, func(t *testing.T) {
					b := newBench(t)
					w, before, after := b.canarying("web", change, stepwise)
					lose(b, w)
					if restart {
						b.restart()
					}
					b.must(w)
					p := b.podsController(w)
					switch {
					case w.Spec.Storage == nil || name == "deleted":
						runs(t, p, before, 4)
					case partition(p) != 2:
						t.Errorf("the partition is %d in the first step, want 2", partition(p))
					}
					b.must(w)
					if p = b.podsController(w); w.Spec.Storage != nil && partition(p) != 2 {
						t.Errorf("the canary does not go on: the partition is %d", partition(p))
					}
					if w.Status.Phase != v1beta1.PhaseCanary || w.Status.Rollout.Step != 1 {
						t.Errorf("%s: %+v", w.Status.Phase, w.Status.Rollout)
					}
					for range 2 {
						b.passes(w)
						b.must(w)
					}
					b.rests(w)
					b.expect(w, v1beta1.PhaseReady, reasonReady)
					runs(t, b.podsController(w), after, 4)
				})
			}
		}
	}
}
