package workload

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

var errKilled = errors.New("the process was killed")

func (b *bench) deleted(w *v1beta1.Workload) bool {
	b.t.Helper()
	err := api.Get(b.t.Context(), client.ObjectKeyFromObject(w), &v1beta1.Workload{})
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return err != nil
}

func (b *bench) remove(w *v1beta1.Workload) {
	b.t.Helper()
	if err := api.Delete(b.t.Context(), w); err != nil {
		b.t.Fatal(err)
	}
}

func TestDelete_RemovesEveryChildAndWaitsForIt(t *testing.T) {
	b := newBench(t)
	w := b.running("web", full)
	b.remove(w)
	result := b.must(w)
	if b.deleted(w) || result.RequeueAfter != recheckDeleting {
		t.Fatalf("gone before its children, or not looked at again (%s)", result.RequeueAfter)
	}
	b.expect(w, v1beta1.PhaseDeleting, reasonDeleting)
	if c := conditionOf(w, v1beta1.ConditionReconciling); c.Status != metav1.ConditionTrue {
		t.Errorf("Reconciling: %+v", c)
	}
	for name, c := range b.children() {
		if c.GetDeletionTimestamp() == nil && !strings.HasPrefix(name, "ConfigMap/kube") && !strings.HasPrefix(name, "ServiceAccount/default") {
			t.Errorf("%s is not being deleted", name)
		}
	}
	b.taken()
	b.must(w) // status tells now that the children are on their way out
	if diff := cmp.Diff([]string{"apply status of Workload"}, b.taken()); diff != "" {
		t.Error(diff)
	}
	b.must(w)
	if writes := b.taken(); len(writes) > 0 {
		t.Errorf("writes while it waits: %v", writes)
	}
	b.collect()
	b.must(w)
	if !b.deleted(w) {
		t.Error("held after its last child is gone")
	}
	if diff := cmp.Diff([]string{"patch Workload"}, b.taken()); diff != "" {
		t.Error(diff)
	}
	if _, ok := b.r.memories.Load(client.ObjectKeyFromObject(w)); ok {
		t.Error("a Workload that is gone is remembered")
	}
}

func TestDelete_SaysWhatItWaitsFor(t *testing.T) {
	b := newBench(t)
	w := b.running("web", full)
	b.edit("Service", "web", func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/hold"}) })
	b.remove(w)
	b.must(w)
	b.must(w)
	message := conditionOf(w, v1beta1.ConditionReady).Message
	if !strings.Contains(message, "Service/web (waits for finalizer example.com/hold)") || !strings.Contains(message, "Deployment/web,") {
		t.Errorf("Ready: %s", message)
	}
	b.collect()
	b.must(w)
	if !b.deleted(w) {
		t.Error("held after the finalizers are off")
	}
}

func TestDelete_OrphanLeavesEverythingRunning(t *testing.T) {
	b := newBench(t)
	w := b.running("web", full, func(w *v1beta1.Workload) { w.Spec.DeletionPolicy = v1beta1.DeletionPolicyOrphan })
	// One child has lost its labels, and one has a second owner.
	b.edit("Service", "web", func(s *unstructured.Unstructured) { s.SetLabels(nil) })
	second := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: types.UID("22222222-2222-2222-2222-222222222222")}
	b.edit("NetworkPolicy", "web", func(n *unstructured.Unstructured) {
		n.SetOwnerReferences(append(n.GetOwnerReferences(), second))
	})
	before := b.children()
	b.remove(w)
	b.must(w)
	if !b.deleted(w) {
		t.Fatal("the Workload is still there")
	}
	after := b.children()
	if !slices.Equal(names(before), names(after)) {
		t.Errorf("children %v, were %v", names(after), names(before))
	}
	for name, c := range after {
		want := 0
		if name == "NetworkPolicy/web" {
			want = 1
		}
		if len(c.GetOwnerReferences()) != want || c.GetLabels()[render.LabelManagedBy] == render.ManagedBy {
			t.Errorf("%s: owners %v, labels %v", name, c.GetOwnerReferences(), c.GetLabels())
		}
	}
}

func TestDelete_KeepsTheStorage(t *testing.T) {
	policy := func(b *bench) string {
		got, _, _ := unstructured.NestedString(b.child("StatefulSet", "db").Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
		return got
	}
	for name, tc := range map[string]struct {
		before, after func(*v1beta1.Workload)
		want          string
	}{
		"not with the policy Delete":    {everything, nil, "Delete"},
		"with the policy RetainStorage": {func(w *v1beta1.Workload) { everything(w); w.Spec.DeletionPolicy = v1beta1.DeletionPolicyRetainStorage }, nil, "Retain"},
		"with retain in the storage":    {func(w *v1beta1.Workload) { everything(w); w.Spec.Storage.Retain = true }, nil, "Retain"},
		"when it was paused at the change": {everything, func(w *v1beta1.Workload) {
			w.Spec.Paused = true
			w.Spec.DeletionPolicy = v1beta1.DeletionPolicyRetainStorage
		}, "Retain"},
		"when the change was denied": {everything, func(w *v1beta1.Workload) {
			w.Spec.Image, w.Spec.DeletionPolicy = "evil.example.com/a:1", v1beta1.DeletionPolicyRetainStorage
		}, "Retain"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := b.running("db", tc.before)
			if tc.after != nil {
				b.update(w, tc.after)
				b.must(w)
			}
			b.remove(w)
			b.must(w)
			if tc.after != nil {
				if b.child("StatefulSet", "db").GetDeletionTimestamp() != nil {
					t.Fatal("deleted before its controller knows that the claims stay")
				}
				b.must(w)
				b.healthy(w) // its controller has seen the policy
				b.must(w)
			}
			if got := policy(b); got != tc.want || b.child("StatefulSet", "db").GetDeletionTimestamp() == nil {
				t.Errorf("claims: %s, want %s", got, tc.want)
			}
			b.collect()
			b.must(w)
			if !b.deleted(w) {
				t.Error("the Workload is still there")
			}
		})
	}
}

func TestDelete_LetsADeniedWorkloadGo(t *testing.T) {
	for _, ran := range []bool{false, true} {
		b := newBench(t)
		deny := func(w *v1beta1.Workload) { w.Spec.Image = "evil.example.com/a:1" }
		var w *v1beta1.Workload
		if ran {
			w = b.running("web")
			b.update(w, deny)
		} else {
			w = b.workload("web", deny)
		}
		b.must(w)
		b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
		b.remove(w)
		b.must(w)
		b.collect()
		b.must(w)
		if !b.deleted(w) {
			t.Errorf("ran %t: still there", ran)
		}
	}
}

// A backup restores objects with their finalizers, which then belong to the tool that
// restored them.
func TestDelete_TakesOffAFinalizerThatSomeoneElseSet(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", func(w *v1beta1.Workload) { w.Finalizers = []string{finalizer, "example.com/other"} })
	b.must(w)
	b.remove(w)
	b.must(w)
	b.collect()
	b.must(w)
	if !slices.Equal(w.Finalizers, []string{"example.com/other"}) {
		t.Fatalf("finalizers: %v", w.Finalizers)
	}
	b.taken()
	b.must(w)
	if writes := b.taken(); len(writes) > 0 {
		t.Errorf("writes to a Workload that is none of its business any more: %v", writes)
	}
	b.update(w, func(w *v1beta1.Workload) { w.Finalizers = nil })
	if !b.deleted(w) {
		t.Error("still there")
	}
}

func TestDelete_GoesOnWhereItWasCutOff(t *testing.T) {
	for _, policy := range []v1beta1.DeletionPolicy{v1beta1.DeletionPolicyDelete, v1beta1.DeletionPolicyOrphan} {
		b := newBench(t)
		w := b.running("web", func(w *v1beta1.Workload) { w.Spec.DeletionPolicy = policy })
		b.remove(w)
		passes := 0
		for left := 0; !b.deleted(w); passes++ {
			if passes > 50 {
				t.Fatalf("%s: does not end", policy)
			}
			// Each pass gets one write further than the one before, then the process is killed.
			left = passes
			b.refuse = func(string) error {
				if left--; left < 0 {
					return errKilled
				}
				return nil
			}
			_, _ = b.reconcile(w)
			b.restart()
			b.collect()
		}
		if passes < 3 {
			t.Errorf("%s: over after %d passes; nothing was cut off", policy, passes)
		}
		for name, c := range b.children() {
			if owner := metav1.GetControllerOf(c); owner != nil || (policy == v1beta1.DeletionPolicyDelete && strings.HasSuffix(name, "/web")) {
				t.Errorf("%s: %s is left, owned by %v", policy, name, owner)
			}
		}
	}
}

func TestReconcile_GoesOnWhereItWasCutOff(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", full)
	b.told()
	for writes := 0; ; writes++ {
		if writes > 20 {
			t.Fatal("does not end")
		}
		left := writes
		b.refuse = func(string) error {
			if left--; left < 0 {
				return errKilled
			}
			return nil
		}
		b.restart()
		if _, err := b.reconcile(w); err == nil {
			break
		}
	}
	b.refuse = nil
	b.healthy(w)
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if events := strings.Join(b.told(), "\n"); strings.Contains(events, reasonHealed) {
		t.Errorf("what was cut off is taken for drift: %s", events)
	}
}

func TestReconcile_IsNotHeldUpByANamespaceThatIsBeingDeleted(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	if err := api.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), b.child("Service", "web")); err != nil {
		t.Fatal(err)
	}
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonNamespaceTerminating)
	b.remove(w)
	b.must(w)
	b.collect()
	b.must(w)
	if !b.deleted(w) {
		t.Errorf("still there: %+v", w.Status.Conditions)
	}
}
