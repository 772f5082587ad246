package workload

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// records are the names of the stable revisions that are kept.
func (b *bench) records() []string {
	var out []string
	for _, name := range names(b.children()) {
		if strings.HasPrefix(name, kindRecord+"/") {
			out = append(out, name)
		}
	}
	return out
}

// A stable revision of long ago is nothing to go back to.
func TestRollout_ForgetsTheStableRevisionOnceNobodyAsksForIt(t *testing.T) {
	b := newBench(t)
	w := b.running("web", stepwise)
	b.must(w)
	canary := w.Spec.Rollout.DeepCopy()
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Rollout = nil })
	b.must(w)
	b.collect()
	if left := b.records(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	_, after := b.release(w)
	b.rests(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Rollout = canary })
	b.must(w)
	runs(t, b.child("Deployment", "web"), after, 4)
	b.rests(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	runs(t, b.child("Deployment", "web"), after, 4)
}

func TestRollout_ACanaryIsCalledOffWithItsStrategy(t *testing.T) {
	for name, kind := range map[string]func(*v1beta1.Workload){"a Deployment": full, "a StatefulSet": everything} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w, _, after := b.canarying("web", kind, stepwise)
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Rollout = nil })
			b.rests(w)
			b.expect(w, v1beta1.PhaseReady, reasonReady)
			p := b.child("Deployment", "web")
			if w.Spec.Storage != nil {
				p = b.child("StatefulSet", "web")
			}
			runs(t, p, after, 4)
			if nestedInt(p, "spec", "updateStrategy", "rollingUpdate", "partition") != 0 || b.child("Deployment", "web-canary") != nil || len(b.records()) != 0 {
				t.Errorf("some of the canary is left: %v, %v", p.Object["spec"], b.records())
			}
			b.calm(w, "called off")
		})
	}
}

// What nobody watched counts neither for a step nor against it.
func TestRollout_TimeThatNobodyWatchedDoesNotCount(t *testing.T) {
	paused := func(t *testing.T, b *bench, w *v1beta1.Workload) {
		b.update(w, func(w *v1beta1.Workload) { w.Spec.Paused = true })
		b.must(w)
		b.clock.move(time.Hour)
		b.update(w, func(w *v1beta1.Workload) { w.Spec.Paused = false })
		b.must(w)
		b.stepped(w)
	}
	restarted := func(_ *testing.T, b *bench, w *v1beta1.Workload) {
		b.restart()
		b.clock.move(time.Hour)
		b.must(w)
	}
	outage := func(t *testing.T, b *bench, w *v1beta1.Workload) {
		depot.Override(testkit.PathContains(b.namespace), testkit.Status(http.StatusInternalServerError))
		t.Cleanup(depot.Restore)
		b.restart()
		_, _ = b.reconcile(w)
		b.clock.move(time.Hour)
		_, _ = b.reconcile(w)
		depot.Restore()
		b.must(w)
	}
	for name, unwatched := range map[string]func(*testing.T, *bench, *v1beta1.Workload){
		"a pause": paused, "an operator that is away": restarted, "a gate that could not decide": outage,
	} {
		for ready, before := range map[string]func(*bench, *v1beta1.Workload){
			"pods that are not ready": func(*bench, *v1beta1.Workload) {},
			"pods that are ready":     func(b *bench, w *v1beta1.Workload) { b.stepped(w); b.must(w); b.clock.move(10 * time.Second) },
		} {
			t.Run(name+", "+ready, func(t *testing.T) {
				b := newBench(t)
				w, _, after := b.canarying("web", stepwise)
				before(b, w)
				unwatched(t, b, w)
				if w.Status.Phase != v1beta1.PhaseCanary || w.Status.Rollout.Step != 1 {
					t.Fatalf("%s: %+v", w.Status.Phase, w.Status.Rollout)
				}
				b.passes(w)
				b.must(w)
				runs(t, b.child("Deployment", "web"), after, 4)
			})
		}
	}
}

// Whoever waits for a release must not be told that it is Ready because something could
// not be read meanwhile.
func TestRollout_IsNotReadyWhileItCannotBeLookedAt(t *testing.T) {
	b := newBench(t)
	w, _, _ := b.canarying("web", stepwise)
	b.stepped(w)
	b.must(w)
	depot.Override(testkit.PathContains(b.namespace), testkit.Status(http.StatusInternalServerError))
	t.Cleanup(depot.Restore)
	b.restart()
	if _, err := b.reconcile(w); err == nil {
		t.Fatal("the gate decided")
	}
	b.read(w)
	b.expect(w, v1beta1.PhaseCanary, reasonUndecided)
	depot.Restore()
	b.refuse = func(text string) error {
		if text == "apply Deployment" {
			return apierrors.NewInternalError(errors.New("no"))
		}
		return nil
	}
	b.must(w)
	b.clock.move(31 * time.Second)
	if _, err := b.reconcile(w); err == nil {
		t.Fatal("the write is not refused")
	}
	b.read(w)
	if m := conditionOf(w, v1beta1.ConditionReady); w.Status.Phase != v1beta1.PhaseCanary || !strings.Contains(m.Message, "apply Deployment") {
		t.Errorf("%s: %+v", w.Status.Phase, m)
	}
}

func TestRollout_AFailedOneIsNotReadyWhileItCannotBeLookedAt(t *testing.T) {
	b := newBench(t)
	b.analysis = &gauge{outcome: v1beta1.MeasurementFailed, value: "1"}
	b.restart()
	w, _, _ := b.canarying("web", stepwise, measuredBy("errors"))
	b.passes(w)
	b.rests(w)
	b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
	depot.Override(testkit.PathContains(b.namespace), testkit.Status(http.StatusInternalServerError))
	t.Cleanup(depot.Restore)
	b.restart()
	if _, err := b.reconcile(w); err == nil {
		t.Fatal("the gate decided")
	}
	b.read(w)
	b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
}

// fallen is a Workload whose new revision failed and that is back on the stable one.
func (b *bench) fallen(steps int, changes ...func(*v1beta1.Workload)) (w *v1beta1.Workload, before string) {
	b.t.Helper()
	g := &gauge{outcome: v1beta1.MeasurementPassed, value: "0"}
	b.analysis = g
	b.restart()
	w, before, _ = b.canarying("web", append([]func(*v1beta1.Workload){stepwise, measuredBy("errors")}, changes...)...)
	for range steps {
		b.passes(w)
		b.must(w)
	}
	g.outcome, g.value = v1beta1.MeasurementFailed, "1"
	b.passes(w)
	b.rests(w)
	b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
	runs(b.t, b.child("Deployment", "web"), before, 4)
	return w, before
}

// What failed does not come back because what runs in its place is denied, or cannot be
// judged.
func TestRollout_WhatFailedStaysAwayWhateverHappensToTheStableRevision(t *testing.T) {
	for name, status := range map[string]int{"it is denied": http.StatusNotFound, "it cannot be judged": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w, before := b.fallen(1)
			depot.Override(testkit.PathContains(strings.Replace(before, ":", "-", 1)), testkit.Status(status))
			t.Cleanup(depot.Restore)
			b.restart()
			for range 3 {
				_, _ = b.reconcile(w)
				b.stepped(w)
			}
			b.read(w)
			runs(t, b.child("Deployment", "web"), before, 4)
			if b.child("Deployment", "web-canary") != nil {
				t.Error("the revision that failed is started again")
			}
			if w.Status.Phase == v1beta1.PhaseReady {
				t.Error("it is Ready")
			}
		})
	}
}

func TestRollout_AWithdrawnKeyReachesWhatRunsAfterAFailedRollout(t *testing.T) {
	b := newGuarded(t, v1beta1.OnFailureScaleToZero)
	w, _ := b.fallen(0)
	b.rotate()
	b.restart()
	b.takeAway(w)
	b.replicasOf("Deployment", 0, "denied")
	b.calm(w, "without pods")
	b.accept(signer)
	b.must(w)
	b.replicasOf("Deployment", 4, "allowed again")
	b.rests(w)
	b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
}

// The pods that were taken away come back neither as they were nor beside a canary.
func TestRollout_ARemedyDoesNotBringBackWhatIsDenied(t *testing.T) {
	b := newGuarded(t, v1beta1.OnFailureScaleToZero)
	w := b.running("web", stepwise)
	b.must(w)
	fresh, err := testkit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	b.accept(fresh)
	b.takeAway(w)
	denied := w.Status.Images[0].Digest
	image, after := push(t, b.namespace+"/web:2", "web:2")
	sign(t, fresh, image, after)
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Image = image })
	for range 4 {
		b.must(w)
		d := b.child("Deployment", "web")
		if strings.HasSuffix(imageOf(t, d), denied) && nestedInt(d, "spec", "replicas") > 0 {
			t.Fatal("what is denied runs again")
		}
		b.passes(w)
	}
	b.rests(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	runs(t, b.child("Deployment", "web"), after, 4)
}

func TestRollout_PodsOfADeniedCanaryGoWhereTheGateWantsNone(t *testing.T) {
	b := newGuarded(t, v1beta1.OnFailureScaleToZero)
	w, before, after := b.canarying("web", stepwise)
	depot.Override(testkit.PathContains(strings.Replace(after, ":", "-", 1)), testkit.Status(http.StatusNotFound))
	t.Cleanup(depot.Restore)
	b.restart()
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
	runs(t, b.child("Deployment", "web-canary"), after, 2)
	b.clock.move(limits.DenialStands)
	b.must(w)
	b.collect()
	b.must(w)
	if b.child("Deployment", "web-canary") != nil {
		t.Error("pods of a denied canary run on")
	}
	runs(t, b.child("Deployment", "web"), before, 4)
	b.calm(w, "denied")
}

func TestRollout_PodsOfADeniedRevisionGoInTheLastStepToo(t *testing.T) {
	b := newGuarded(t, v1beta1.OnFailureScaleToZero)
	w, _, after := b.canarying("web", stepwise)
	b.passes(w)
	b.must(w)
	runs(t, b.child("Deployment", "web"), after, 4)
	b.rotate()
	b.restart()
	b.must(w)
	b.clock.move(limits.DenialStands)
	for range 3 {
		b.must(w)
		b.collect()
	}
	b.expect(w, v1beta1.PhaseBlocked, reasonScaledToZero)
	runs(t, b.child("Deployment", "web"), after, 0)
	if b.child("Deployment", "web-canary") != nil {
		t.Error("pods of a denied canary run on")
	}
	b.calm(w, "denied")
	b.accept(signer)
	b.must(w)
	for range 2 {
		b.passes(w)
		b.must(w)
	}
	b.rests(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	runs(t, b.child("Deployment", "web"), after, 4)
}

// A new revision that refers to another Secret is no reason to restart the old one's pods.
func TestRollout_ANewReferenceLeavesThePodsOfTheStableRevisionAlone(t *testing.T) {
	b := newBench(t)
	b.analysis = &gauge{outcome: v1beta1.MeasurementFailed, value: "1"}
	b.restart()
	secret := func(name string) {
		create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace}, StringData: map[string]string{"A": name}})
	}
	secret("one")
	secret("two")
	w := b.running("web", stepwise, measuredBy("errors"), func(w *v1beta1.Workload) { w.Spec.Secrets = []v1beta1.SecretRef{{Name: "one", EnvFrom: true}} })
	b.must(w)
	template := func() string {
		raw, err := json.Marshal(b.child("Deployment", "web").Object["spec"].(map[string]any)["template"])
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	was := template()
	b.update(w, func(w *v1beta1.Workload) {
		w.Spec.Secrets = append(w.Spec.Secrets, v1beta1.SecretRef{Name: "two", EnvFrom: true})
	})
	b.must(w)
	if b.child("Deployment", "web-canary") == nil || template() != was {
		t.Errorf("the stable pods are rolled:\n%s\n%s", was, template())
	}
	b.restart()
	b.must(w)
	b.passes(w)
	for range 4 {
		b.must(w)
		if template() != was {
			t.Fatalf("the stable pods are rolled on the way back:\n%s\n%s", was, template())
		}
		b.stepped(w)
		b.collect()
	}
	b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
}

func TestRollout_ALostRecordIsNoWayAroundTheSteps(t *testing.T) {
	b := newBench(t)
	w, before, after := b.canarying("web", stepwise)
	for _, c := range b.children() {
		if c.GetKind() == kindRecord {
			if err := api.Delete(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.must(w)
	runs(t, b.child("Deployment", "web"), before, 4)
	runs(t, b.child("Deployment", "web-canary"), after, 2)
	if len(b.records()) != 1 {
		t.Errorf("records: %v", b.records())
	}
	b.restart()
	b.must(w)
	runs(t, b.child("Deployment", "web"), before, 4)
}

func TestRollout_AWorkloadOfTheCanarysNameIsNotFoughtWith(t *testing.T) {
	b := newBench(t)
	w, _, _ := b.canarying("web", stepwise)
	other := b.workload("web-canary")
	b.must(other)
	b.expect(other, v1beta1.PhaseBlocked, reasonConflict)
	b.calm(w, "beside another of its canary's name")

	b2 := newBench(t)
	other = b2.running("web-canary")
	w = b2.running("web", stepwise)
	b2.must(w)
	before, _ := b2.release(w)
	b2.must(w)
	b2.expect(w, v1beta1.PhaseBlocked, reasonConflict)
	if m := conditionOf(w, v1beta1.ConditionReady).Message; !strings.Contains(m, "web-canary exists and is controlled by Workload web-canary") {
		t.Error(m)
	}
	runs(t, b2.child("Deployment", "web"), before, 4)
	b2.calm(other, "beside")
	b2.calm(w, "beside")
}

func TestRollout_NothingOfACanaryOutlivesItsWorkload(t *testing.T) {
	for _, policy := range []v1beta1.DeletionPolicy{v1beta1.DeletionPolicyDelete, v1beta1.DeletionPolicyOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			b := newBench(t)
			w, before, _ := b.canarying("web", stepwise, func(w *v1beta1.Workload) { w.Spec.DeletionPolicy = policy })
			if err := api.Delete(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				_, _ = b.reconcile(w)
				b.collect()
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(w), w); !apierrors.IsNotFound(err) {
				t.Fatalf("the Workload is still there: %v", err)
			}
			if left := b.records(); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			if policy == v1beta1.DeletionPolicyOrphan {
				runs(t, b.child("Deployment", "web"), before, 4)
			} else if left := names(b.children()); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// Each stage is written once, whatever drift.mode says.
func TestRollout_RestsInEachStage(t *testing.T) {
	for _, mode := range []v1beta1.DriftMode{v1beta1.DriftModeHeal, v1beta1.DriftModeReport} {
		t.Run(string(mode), func(t *testing.T) {
			b := newBench(t)
			long := func(w *v1beta1.Workload) {
				w.Spec.Drift = &v1beta1.Drift{Mode: mode}
				w.Spec.Rollout.Canary.Interval = &metav1.Duration{Duration: time.Hour}
			}
			w, _, _ := b.canarying("web", full, stepwise, long)
			for step := range 2 {
				b.stepped(w)
				b.calm(w, "in a step")
				if w.Status.Phase != v1beta1.PhaseCanary || w.Status.Rollout.Step != int32(step)+1 || w.Status.Drift != nil {
					t.Fatalf("%s: %+v %+v", w.Status.Phase, w.Status.Rollout, w.Status.Drift)
				}
				b.clock.move(time.Hour)
				b.must(w)
			}
			b.rests(w)
			b.expect(w, v1beta1.PhaseReady, reasonReady)
			b.calm(w, "after it")
		})
	}
}

func TestRollout_PutsBackWhatOthersDoToTheCanary(t *testing.T) {
	b := newBench(t)
	w, _, after := b.canarying("web", stepwise)
	b.edit("Deployment", "web-canary", func(d *unstructured.Unstructured) { setNested(t, d, int64(9), "spec", "replicas") })
	b.must(w)
	runs(t, b.child("Deployment", "web-canary"), after, 2)
	if err := api.Delete(t.Context(), b.child("Deployment", "web-canary")); err != nil {
		t.Fatal(err)
	}
	b.must(w)
	runs(t, b.child("Deployment", "web-canary"), after, 2)
}

func TestRollout_PutsBackWhatOthersDoToTheRecord(t *testing.T) {
	b := newBench(t)
	w, before, after := b.canarying("web", stepwise)
	b.edit(kindRecord, strings.TrimPrefix(b.records()[0], kindRecord+"/"), func(c *unstructured.Unstructured) {
		c.SetOwnerReferences(nil)
		setNested(t, c, "x", "metadata", "labels", "app.kubernetes.io/name")
	})
	b.must(w)
	name := strings.TrimPrefix(b.records()[0], kindRecord+"/")
	if c := b.child(kindRecord, name); !metav1.IsControlledBy(c, w) || c.GetLabels()["app.kubernetes.io/name"] != "web" {
		t.Errorf("it is as it was changed: %v", c.Object["metadata"])
	}
	runs(t, b.child("Deployment", "web"), before, 4)
	runs(t, b.child("Deployment", "web-canary"), after, 2)
	b.calm(w, "with a record that was put back")
}
