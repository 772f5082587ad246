package workload

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

func TestReconcile_LeavesMarksOfOthersAlone(t *testing.T) {
	b := newBench(t)
	w := b.running("web", full)
	for _, kind := range []string{"Deployment", "Service", "NetworkPolicy"} {
		b.edit(kind, "web", func(u *unstructured.Unstructured) {
			labels, annotations := u.GetLabels(), u.GetAnnotations()
			labels["team"], annotations["example.com/seen"] = "shop", "yes"
			u.SetLabels(labels)
			u.SetAnnotations(annotations)
		})
	}
	restart := []string{"spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"}
	b.edit("Deployment", "web", func(u *unstructured.Unstructured) { setNested(t, u, "2026-01-01T00:00:00Z", restart...) })
	b.healthy(w)
	b.must(w)
	if writes := b.taken(); len(writes) > 0 {
		t.Fatalf("writes: %v", writes)
	}
	// Not even putting something else back takes them away.
	b.patch("Deployment", "web", map[string]any{"op": "add", "path": "/spec/template/spec/hostNetwork", "value": true})
	b.must(w)
	d := b.child("Deployment", "web")
	if at, _, _ := unstructured.NestedString(d.Object, restart...); at == "" || d.GetLabels()["team"] != "shop" || d.GetAnnotations()["example.com/seen"] != "yes" {
		t.Errorf("lost: %v, %v", d.GetLabels(), d.Object["spec"])
	}
	if host, _, _ := unstructured.NestedBool(d.Object, "spec", "template", "spec", "hostNetwork"); host {
		t.Error("not put back")
	}
}

func TestReconcile_WritesNothingAtRest(t *testing.T) {
	for name, tc := range map[string]struct {
		reconciles int
		change     func(*v1beta1.Workload)
	}{
		"a Deployment with everything":  {100, full},
		"a StatefulSet with everything": {100, everything},
		"the least there can be":        {10, func(w *v1beta1.Workload) { w.Spec.Ports = nil }},
		"a Deployment with patches": {10, func(w *v1beta1.Workload) {
			full(w)
			w.Spec.Patches = []v1beta1.Patch{{Target: &v1beta1.PatchTarget{Kind: "Deployment"},
				Patch: `[{"op":"add","path":"/spec/template/spec/terminationGracePeriodSeconds","value":7},{"op":"add","path":"/spec/template/spec/containers/0/resources/limits/cpu","value":"2000m"}]`}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := b.running("web", tc.change)
			before, verdicts := b.children(), b.verdicts
			for i := range tc.reconciles {
				if i == tc.reconciles/2 {
					b.restart()
				}
				b.must(w)
			}
			if writes := b.taken(); len(writes) > 0 {
				t.Errorf("writes: %v", writes)
			}
			if b.verdicts-verdicts != tc.reconciles {
				t.Errorf("%d verdicts", b.verdicts-verdicts)
			}
			if diff := cmp.Diff(before, b.children()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReconcile_DoesNotFightForEver(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	writes := 0
	for range 60 {
		b.patch("Deployment", "web", map[string]any{"op": "replace", "path": "/spec/replicas", "value": 9})
		b.must(w)
		writes += len(slices.DeleteFunc(b.taken(), func(w string) bool { return !strings.Contains(w, "Deployment") }))
		b.clock.move(30 * time.Second)
	}
	// Half an hour at a write a minute, and a few more until the pauses are that long.
	if writes > 45 || writes < 10 {
		t.Errorf("%d writes in half an hour", writes)
	}
	if c := conditionOf(w, v1beta1.ConditionDrifted); c.Status == metav1.ConditionTrue && (c.Reason != reasonDriftReturns || !strings.Contains(c.Message, "Deployment/web")) {
		t.Errorf("Drifted: %+v", c)
	}
	b.clock.move(2 * time.Minute)
	b.must(w)
	if got := nestedInt(b.child("Deployment", "web"), "spec", "replicas"); got != 1 {
		t.Errorf("%d replicas once the other has stopped", got)
	}
}

// What others do on the way, as a mutating webhook does, wakes the Workload as soon as it is
// written: without a pause there is no end to it.
func TestReconcile_WritesNoChildForEver(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", field.ErrorList{field.Duplicate(field.NewPath("spec", "ports").Index(1).Child("name"), "http")})
	for name, tc := range map[string]struct {
		kind, name string
		changes    []func(*v1beta1.Workload)
		// mutate is what a webhook does to a write, and undo what others do after it.
		mutate func(annotations map[string]string)
		undo   func(*bench)
		// refused is a kind of which the API server refuses every write.
		refused string
		phase   v1beta1.Phase
		reason  string
	}{
		"a note that a webhook changes": {
			kind: "Deployment", name: "web",
			mutate: func(annotations map[string]string) { annotations[annotationMark] = `{"scheme":7}` },
		},
		"a hash that a webhook changes": {
			kind: "Service", name: "web", phase: v1beta1.PhaseReady, reason: reasonReady,
			mutate: func(annotations map[string]string) { annotations[annotationDesired] = "0123456789abcdef" },
		},
		"what is put back and refused": {
			kind: "Service", name: "web", phase: v1beta1.PhaseBlocked, reason: reasonChildRefused, refused: "Service",
			undo: func(b *bench) {
				b.patch("Service", "web", map[string]any{"op": "replace", "path": "/spec/ports/0/port", "value": 1234})
			},
		},
		"a canary's Deployment that is deleted": {
			kind: "Deployment", name: "web-canary", phase: v1beta1.PhaseCanary,
			changes: []func(*v1beta1.Workload){stepwise, func(w *v1beta1.Workload) {
				w.Spec.Drift = &v1beta1.Drift{Mode: v1beta1.DriftModeReport}
			}},
			undo: func(b *bench) {
				if d := b.child("Deployment", "web-canary"); d != nil {
					if err := api.Delete(b.t.Context(), d); err != nil {
						b.t.Fatal(err)
					}
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := b.running("web", tc.changes...)
			if tc.phase == v1beta1.PhaseCanary {
				b.release(w)
				b.must(w)
			}
			if tc.mutate != nil {
				b.mutate = func(o annotated) {
					if notes := o.GetAnnotations(); o.GetKind() == tc.kind {
						tc.mutate(notes)
						o.SetAnnotations(notes)
					}
				}
				b.edit(tc.kind, tc.name, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
			}
			b.refuse = func(write string) error {
				if tc.refused == "" || !strings.HasSuffix(write, " "+tc.refused) {
					return nil
				}
				*b.writes = append(*b.writes, write)
				return invalid
			}
			b.taken()
			writes := 0
			for range 60 {
				if tc.undo != nil {
					tc.undo(b)
				}
				b.must(w)
				writes += len(slices.DeleteFunc(b.taken(), func(w string) bool { return !strings.HasSuffix(w, " "+tc.kind) }))
				b.clock.move(time.Second)
			}
			// Three at once, and then at pauses of 1, 2, 4, 8, 16 and 32 s, at two writes each.
			if writes < 4 || writes > 24 {
				t.Errorf("%d writes of %s/%s in a minute", writes, tc.kind, tc.name)
			}
			if c := conditionOf(w, v1beta1.ConditionDrifted); c.Status != metav1.ConditionTrue || c.Reason != reasonDriftReturns || !strings.Contains(c.Message, tc.kind+"/"+tc.name) {
				t.Errorf("Drifted: %+v", c)
			}
			if tc.reason != "" {
				b.expect(w, tc.phase, tc.reason)
			}
		})
	}
}

// The write that was not seen wins, and the next reconcile looks at it. One that only
// changed the status or a mark of others does not hold it up.
func TestReconcile_DoesNotUndoAWriteItHasNotSeen(t *testing.T) {
	for name, tc := range map[string]struct {
		patch    string
		outdated bool
	}{
		"to the spec":   {`{"spec":{"minReadySeconds":5}}`, true},
		"to the labels": {`{"metadata":{"labels":{"team":"shop"}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := b.running("web")
			d := b.child("Deployment", "web")
			b.patch("Deployment", "web", map[string]any{"op": "add", "path": "/spec/template/spec/hostNetwork", "value": true})
			once := true
			b.refuse = func(write string) error {
				if write != "patch Deployment" || !once {
					return nil
				}
				once = false
				return api.Patch(t.Context(), d.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(tc.patch)), client.FieldOwner("other"))
			}
			before := w.ResourceVersion
			result := b.must(w)
			if outdated := result.RequeueAfter == recheckOutdated; outdated != tc.outdated {
				t.Errorf("again in %s", result.RequeueAfter)
			}
			if tc.outdated && (w.ResourceVersion != before || len(b.told()) > 0) {
				t.Error("status or events tell of a conflict that is over in half a second")
			}
			b.must(w)
			d = b.child("Deployment", "web")
			host, _, _ := unstructured.NestedBool(d.Object, "spec", "template", "spec", "hostNetwork")
			if host || nestedInt(d, "spec", "minReadySeconds") != 0 || (!tc.outdated && d.GetLabels()["team"] != "shop") {
				t.Errorf("labels %v, spec %v", d.GetLabels(), d.Object["spec"])
			}
		})
	}
}

func TestReconcile_PrunesOnceThePodsAreThrough(t *testing.T) {
	b := newBench(t)
	w := b.running("web", full, func(w *v1beta1.Workload) { w.Spec.Replicas = int32Of(2) })
	old := ""
	for name := range b.children() {
		if strings.HasPrefix(name, "ConfigMap/web-config-") {
			old = strings.TrimPrefix(name, "ConfigMap/")
		}
	}
	b.update(w, func(w *v1beta1.Workload) {
		w.Spec.Replicas, w.Spec.Backup = int32Of(1), nil
		w.Spec.Config.Files["app.conf"] = "a=2"
	})
	b.must(w)
	for _, c := range [][2]string{{"ConfigMap", old}, {"PodDisruptionBudget", "web"}, {"CronJob", "web-backup"}} {
		if u := b.child(c[0], c[1]); u == nil || u.GetDeletionTimestamp() != nil {
			t.Errorf("%s %s went before the new pods were there", c[0], c[1])
		}
	}
	if writes := b.taken(); slices.ContainsFunc(writes, func(w string) bool { return strings.HasPrefix(w, "delete") }) {
		t.Errorf("writes: %v", writes)
	}
	b.healthy(w)
	b.must(w)
	for _, c := range [][2]string{{"ConfigMap", old}, {"PodDisruptionBudget", "web"}, {"CronJob", "web-backup"}} {
		if u := b.child(c[0], c[1]); u != nil && u.GetDeletionTimestamp() == nil {
			t.Errorf("%s %s is still there", c[0], c[1])
		}
	}
	b.collect()
	b.must(w)
	b.taken()
	b.must(w)
	if writes := b.taken(); len(writes) > 0 {
		t.Errorf("at rest: %v", writes)
	}
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if len(w.Status.Inventory) != len(b.children()) {
		t.Errorf("inventory %+v of %v", w.Status.Inventory, names(b.children()))
	}
}

func TestReconcile_KeepsAnUnrelatedServiceAddress(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	before, _, _ := unstructured.NestedString(b.child("Service", "web").Object, "spec", "clusterIP")
	b.patch("Service", "web", map[string]any{"op": "add", "path": "/spec/externalIPs", "value": []any{"192.0.2.1"}})
	b.must(w)
	s := &corev1.Service{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "web"}, s); err != nil {
		t.Fatal(err)
	}
	if s.Spec.ClusterIP != before || len(s.Spec.ExternalIPs) > 0 {
		t.Errorf("address %s, was %s; external %v", s.Spec.ClusterIP, before, s.Spec.ExternalIPs)
	}
}
