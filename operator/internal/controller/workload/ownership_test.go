package workload

import (
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

// claimOf makes an object look like a child of the Workload.
func claimOf(w *v1beta1.Workload, o client.Object) client.Object {
	o.SetNamespace(w.Namespace)
	o.SetLabels(map[string]string{render.LabelManagedBy: render.ManagedBy, render.LabelInstance: w.Name, "app.kubernetes.io/name": w.Name})
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(w, v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))})
	return o
}

var another = &v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: types.UID("11111111-1111-1111-1111-111111111111")}}

// taken are Services that stand where a Workload would put its own.
var taken = map[string]struct {
	make func(w *v1beta1.Workload) *corev1.Service
	want string
}{
	"nobody's": {func(w *v1beta1.Workload) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace}}
	}, "is controlled by nobody"},
	"nobody's, with the operator's labels": {func(w *v1beta1.Workload) *corev1.Service {
		s := claimOf(w, &corev1.Service{}).(*corev1.Service)
		s.OwnerReferences = nil
		return s
	}, "is controlled by nobody"},
	"another Workload's of the same name": {func(w *v1beta1.Workload) *corev1.Service {
		s := claimOf(another, &corev1.Service{}).(*corev1.Service)
		s.Namespace = w.Namespace
		return s
	}, "is controlled by Workload web"},
	"made to look like the operator's": {func(w *v1beta1.Workload) *corev1.Service {
		return claimOf(w, &corev1.Service{}).(*corev1.Service)
	}, "names this Workload as its controller, which did not make it"},
}

func TestReconcile_LeavesAChildOfSomeoneElseAlone(t *testing.T) {
	for name, tc := range taken {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := b.workload("web")
			s := tc.make(w)
			s.Name, s.Spec.Ports = "web", []corev1.ServicePort{{Port: 1234}}
			create(t, s)
			before := b.child("Service", "web")
			for range 3 {
				b.must(w)
			}
			b.expect(w, v1beta1.PhaseBlocked, reasonConflict)
			if m := conditionOf(w, v1beta1.ConditionStalled).Message; !strings.Contains(m, "Service "+b.namespace+"/web exists and "+tc.want) {
				t.Errorf("message: %s", m)
			}
			if diff := cmp.Diff(before, b.child("Service", "web")); diff != "" {
				t.Errorf("changed: %s", diff)
			}
			if got := b.child("Deployment", "web"); got != nil {
				t.Error("the other children were made although one is taken")
			}
			if events := b.told(); len(events) != 1 || !strings.HasPrefix(events[0], "Warning ChildConflict ") {
				t.Errorf("events: %q", events)
			}
			if err := api.Delete(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			b.must(w)
			b.expect(w, v1beta1.PhaseProgressing, reasonProgressing)
		})
	}
}

func TestReconcile_DoesNotPruneOrDeleteWhatOnlyLooksLikeItsOwn(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	forged := claimOf(w, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "accounts"}, Data: map[string]string{"a": "b"}})
	create(t, forged)
	before := b.child("ConfigMap", "accounts")
	b.must(w)
	if len(w.Status.Inventory) != 4 {
		t.Errorf("inventory: %+v", w.Status.Inventory)
	}
	if err := api.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	b.must(w)
	b.collect()
	b.must(w)
	if diff := cmp.Diff(before, b.child("ConfigMap", "accounts")); diff != "" {
		t.Errorf("changed: %s", diff)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(w), w); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Workload is held by an object that is not its child: %v", err)
	}
}

// An edit that wipes the field managers takes the operator's name off. A process that
// remembers the child puts it back; one that does not cannot tell it from one that was
// made to look so, and says that.
func TestReconcile_KnowsItsChildWithoutFieldManagers(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBench(t)
		w := b.running("web")
		b.patch("Deployment", "web", map[string]any{"op": "replace", "path": "/metadata/managedFields", "value": []any{map[string]any{}}})
		if restart {
			b.restart()
			b.must(w)
			b.expect(w, v1beta1.PhaseBlocked, reasonConflict)
			continue
		}
		b.must(w)
		b.expect(w, v1beta1.PhaseReady, reasonReady)
		if diff := cmp.Diff([]string{"apply Deployment"}, b.taken()); diff != "" {
			t.Error(diff)
		}
		b.restart()
		b.must(w)
		b.expect(w, v1beta1.PhaseReady, reasonReady)
	}
}

func TestReconcile_TakesItsChildBackWhenTheOwnerReferenceIsTakenOff(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBench(t)
		w := b.running("web")
		b.edit("Deployment", "web", func(d *unstructured.Unstructured) {
			d.SetOwnerReferences(nil)
			setNested(t, d, int64(9), "spec", "replicas")
		})
		if restart {
			b.restart()
		}
		b.must(w)
		if got := b.child("Deployment", "web"); !metav1.IsControlledBy(got, w) {
			t.Errorf("restart %t: owners: %v", restart, got.GetOwnerReferences())
		}
		if events := strings.Join(b.told(), "\n"); !strings.Contains(events, "metadata.ownerReferences (Removed)") {
			t.Errorf("restart %t: events: %q", restart, events)
		}
		b.healthy(w)
		b.must(w)
		b.expect(w, v1beta1.PhaseReady, reasonReady)
		b.taken()
		b.must(w)
		if writes := b.taken(); len(writes) != 0 {
			t.Errorf("restart %t: at rest: %v", restart, writes)
		}
	}
}

func TestReconcile_DoesNotTakeBackWhatAnotherOwnerHas(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	b.edit("Deployment", "web", func(d *unstructured.Unstructured) {
		d.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(another, v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))})
	})
	before := b.child("Deployment", "web")
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonConflict)
	if diff := cmp.Diff(before, b.child("Deployment", "web")); diff != "" {
		t.Error(diff)
	}
}

func TestReconcile_TakesUpWhatAWorkloadOfItsNameLeftBehind(t *testing.T) {
	b := newBench(t)
	w := b.running("db", everything, func(w *v1beta1.Workload) { w.Spec.DeletionPolicy = v1beta1.DeletionPolicyOrphan })
	uid := b.child("StatefulSet", "db").GetUID()
	if err := api.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	b.must(w)
	again := &v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace}, Spec: w.Spec}
	create(t, again)
	b.must(again)
	b.must(again)
	b.expect(again, v1beta1.PhaseReady, reasonReady)
	if s := b.child("StatefulSet", "db"); s.GetUID() != uid || !metav1.IsControlledBy(s, again) {
		t.Errorf("the StatefulSet was not taken up: %v", s.GetOwnerReferences())
	}
}

func TestReconcile_FindsAChildWhoseLabelsWereTakenOff(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	b.edit("Deployment", "web", func(d *unstructured.Unstructured) {
		d.SetLabels(nil)
		setNested(t, d, int64(9), "spec", "replicas")
	})
	b.restart()
	b.must(w)
	d := b.child("Deployment", "web")
	if d.GetLabels()[render.LabelManagedBy] != render.ManagedBy || nestedInt(d, "spec", "replicas") != 1 {
		t.Errorf("labels %v, spec %v", d.GetLabels(), d.Object["spec"])
	}
	if events := strings.Join(b.told(), "\n"); !strings.Contains(events, "metadata.labels (Removed)") && !strings.Contains(events, "metadata.labels.app.kubernetes.io/managed-by (Removed)") {
		t.Errorf("events: %q", events)
	}
}
