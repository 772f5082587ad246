package workload

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
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
					if w.Spec.Storage != nil && name == "deleted" {
						// What its controller sees first is the revision that its pods are made of.
						b.must(w)
						runs(t, b.podsController(w), before, 4)
						b.stepped(w)
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

// Whether the stable revision may begin again is not known, and the new one does not begin
// in its place.
func TestRollout_ALostControllerWaitsUntilTheStableRevisionIsJudged(t *testing.T) {
	for kind, change := range map[string]func(*v1beta1.Workload){"a Deployment": full, "a StatefulSet": everything} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			w, before, _ := b.canarying("web", change, stepwise, func(w *v1beta1.Workload) { w.Spec.Backup = nil })
			if err := api.Delete(t.Context(), b.podsController(w)); err != nil {
				t.Fatal(err)
			}
			depot.Override(testkit.PathContains(strings.Replace(before, ":", "-", 1)), testkit.Status(http.StatusInternalServerError))
			t.Cleanup(depot.Restore)
			b.restart()
			if _, err := b.reconcile(w); err == nil || b.podsController(w) != nil {
				t.Errorf("goes on without the stable revision: %v", err)
			}
			depot.Restore()
			b.restart()
			b.must(w)
			runs(t, b.podsController(w), before, 4)
		})
	}
}

// What the operator finds by labels it finds without them too, also those that were taken
// off while it was away.
func TestRollout_ALostRecordIsFoundAgain(t *testing.T) {
	for name, lose := range map[string]func(*unstructured.Unstructured){
		"without labels":               func(c *unstructured.Unstructured) { c.SetLabels(nil) },
		"without labels and an owner":  func(c *unstructured.Unstructured) { c.SetLabels(nil); c.SetOwnerReferences(nil) },
		"with the labels of another's": func(c *unstructured.Unstructured) { c.SetLabels(map[string]string{render.LabelInstance: "other"}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := b.running("web", stepwise)
			b.must(w)
			record := b.records()[0]
			b.edit(kindRecord, strings.TrimPrefix(record, kindRecord+"/"), lose)
			b.restart()
			before, after := b.release(w)
			b.must(w)
			if w.Status.Phase != v1beta1.PhaseCanary {
				t.Errorf("%s without a record: the new revision goes to every pod", w.Status.Phase)
			}
			runs(t, b.child("Deployment", "web"), before, 4)
			runs(t, b.child("Deployment", "web-canary"), after, 2)
			found := b.children()[record]
			if !metav1.IsControlledBy(found, w) || found.GetLabels()[render.LabelManagedBy] != render.ManagedBy || found.GetLabels()[render.LabelInstance] != "web" {
				t.Errorf("not put back: %v, %v", found.GetLabels(), found.GetOwnerReferences())
			}
			b.calm(w, "midway")
		})
	}
}

// A record is not that of every Workload whose name begins alike.
func TestRollout_TakesNoRecordOfAnotherWorkload(t *testing.T) {
	b := newBench(t)
	other := b.running("web-0123456789abcdef", stepwise)
	b.must(other)
	record := b.records()[0]
	b.edit(kindRecord, strings.TrimPrefix(record, kindRecord+"/"), func(c *unstructured.Unstructured) { c.SetLabels(nil); c.SetOwnerReferences(nil) })
	w := b.running("web")
	b.update(w, stepwise)
	b.restart()
	b.must(w)
	if found := b.children()[record]; metav1.GetControllerOf(found) != nil {
		t.Errorf("taken: %v", found.GetOwnerReferences())
	}
}

// A canary that failed, or was called off, goes however its Deployment is marked.
func TestRollout_ALostCanaryIsTakenAway(t *testing.T) {
	failed := func(b *bench, w *v1beta1.Workload) {
		b.clock.move(time.Hour)
		b.must(w)
	}
	calledOff := func(b *bench, w *v1beta1.Workload) {
		b.restart()
		b.update(w, func(w *v1beta1.Workload) { w.Spec.Image = strings.TrimSuffix(w.Spec.Image, "2") + "1" })
		b.must(w)
	}
	for end, over := range map[string]func(*bench, *v1beta1.Workload){"failed, ": failed, "called off while nobody looked, ": calledOff} {
		for name, lose := range map[string]func(*unstructured.Unstructured){
			"without labels":      func(c *unstructured.Unstructured) { c.SetLabels(nil) },
			"without its track":   func(c *unstructured.Unstructured) { l := c.GetLabels(); delete(l, labelTrack); c.SetLabels(l) },
			"with another's name": func(c *unstructured.Unstructured) { c.SetLabels(map[string]string{render.LabelInstance: "other"}) },
		} {
			t.Run(end+name, func(t *testing.T) {
				b := newBench(t)
				w, before, _ := b.canarying("web", stepwise)
				b.must(w)
				b.edit("Deployment", "web-canary", lose)
				over(b, w)
				b.rests(w)
				if left := b.child("Deployment", "web-canary"); left != nil {
					t.Errorf("runs on: %v", left.GetLabels())
				}
				runs(t, b.child("Deployment", "web"), before, 4)
			})
		}
	}
}

// A label makes no canary of the Workload's own Deployment.
func TestRollout_ALabelOfACanaryHidesNothing(t *testing.T) {
	b := newBench(t)
	w := b.running("web", stepwise)
	b.must(w)
	b.edit("Deployment", "web", func(c *unstructured.Unstructured) {
		l := c.GetLabels()
		l[labelTrack] = trackCanary
		c.SetLabels(l)
	})
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	before, after := b.release(w)
	b.must(w)
	runs(t, b.child("Deployment", "web-canary"), after, 2)
	b.clock.move(time.Hour)
	b.must(w)
	b.rests(w)
	b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
	runs(t, b.child("Deployment", "web"), before, 4)
}

// A canary that is on its way out is one child, also for a process that finds it so.
func TestRollout_ACanaryOnItsWayOutIsFoundOnce(t *testing.T) {
	b := newBench(t)
	w, _, _ := b.canarying("web", stepwise)
	b.clock.move(time.Hour)
	b.must(w)
	if c := b.child("Deployment", "web-canary"); c == nil || c.GetDeletionTimestamp() == nil {
		t.Fatalf("not on its way out: %v", c)
	}
	b.restart()
	b.must(w)
	seen := map[v1beta1.InventoryEntry]int{}
	for _, e := range w.Status.Inventory {
		if seen[e]++; seen[e] > 1 {
			t.Errorf("twice: %+v", e)
		}
	}
}

// What another Workload left behind keeps running, whatever its name.
func TestRollout_TakesNoDeploymentForACanaryByItsName(t *testing.T) {
	b := newBench(t)
	w, before, _ := b.canarying("web", stepwise)
	b.clock.move(time.Hour)
	b.must(w)
	b.rests(w)
	b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
	other := b.running("web-canary", func(w *v1beta1.Workload) { w.Spec.DeletionPolicy = v1beta1.DeletionPolicyOrphan })
	if err := api.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := b.reconcile(other); err != nil {
			t.Fatal(err)
		}
		b.collect()
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(other), other); err == nil {
		t.Fatal("it is not gone")
	}
	b.restart()
	b.rests(w)
	left := b.child("Deployment", "web-canary")
	if left == nil || left.GetDeletionTimestamp() != nil || len(left.GetOwnerReferences()) > 0 {
		t.Errorf("taken: %v", left)
	}
	runs(t, b.child("Deployment", "web"), before, 4)
}

// A canary does not begin in the place of what another Workload left behind, and says so.
func TestRollout_ACanaryWhoseNameIsTakenSaysSo(t *testing.T) {
	b := newBench(t)
	other := b.running("web-canary")
	b.edit("Deployment", "web-canary", func(c *unstructured.Unstructured) { c.SetLabels(nil); c.SetOwnerReferences(nil) })
	left := b.child("Deployment", "web-canary")
	w, before, _ := b.canarying("web", stepwise)
	b.expect(w, v1beta1.PhaseBlocked, reasonConflict)
	runs(t, b.child("Deployment", "web"), before, 4)
	if diff := cmp.Diff(left, b.child("Deployment", "web-canary")); diff != "" {
		t.Error(diff)
	}
	b.must(other)
	if !metav1.IsControlledBy(b.child("Deployment", "web-canary"), other) {
		t.Error("its own Workload does not take it back")
	}
}
