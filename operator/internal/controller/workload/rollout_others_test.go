package workload

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// An autoscaler sets how many pods the stable revision has; the steps follow.
func TestRollout_StepsFollowAnAutoscaler(t *testing.T) {
	b := newBench(t)
	w := b.running("web", stepwise)
	b.autoscaler("apps/v1", "Deployment", "web")
	b.must(w)
	before, after := b.release(w)
	b.must(w)
	runs(t, b.child("Deployment", "web-canary"), after, 2)
	b.scale(b.deployment(), 8)
	b.stepped(w)
	b.must(w)
	runs(t, b.child("Deployment", "web"), before, 8)
	if r := w.Status.Rollout; w.Status.Phase != v1beta1.PhaseCanary || r.Step != 1 || r.Steps != 4 {
		t.Fatalf("%s: %+v", w.Status.Phase, r)
	}
	for step := int64(2); step <= 4; step++ {
		b.passes(w)
		b.must(w)
		runs(t, b.child("Deployment", "web-canary"), after, 2*min(step, 3))
	}
	runs(t, b.child("Deployment", "web"), after, 8)
	b.passes(w)
	b.rests(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	runs(t, b.child("Deployment", "web"), after, 8)
	b.calm(w, "after it")
}

func TestRollout_AReleaseInTheLastStepOfAnotherBeginsFromTheStableOne(t *testing.T) {
	b := newBench(t)
	w, before, second := b.canarying("web", stepwise)
	b.passes(w)
	b.must(w)
	runs(t, b.child("Deployment", "web"), second, 4)
	image, third := pushSigned(t, b.namespace+"/web:3")
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Image = image })
	b.must(w)
	runs(t, b.child("Deployment", "web"), before, 4)
	runs(t, b.child("Deployment", "web-canary"), third, 2)
	for range 2 {
		b.passes(w)
		b.must(w)
	}
	b.rests(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	runs(t, b.child("Deployment", "web"), third, 4)
	b.calm(w, "after it")
}

// A tag that moves midway belongs to the next generation, and starts anew there.
func TestRollout_ATagThatMovesMidwayIsARevisionOfItsOwn(t *testing.T) {
	b := newBench(t)
	w, before, after := b.canarying("web", stepwise)
	digest, err := testkit.PushImage(w.Spec.Image, "moved")
	if err != nil {
		t.Fatal(err)
	}
	sign(t, signer, w.Spec.Image, digest)
	b.passes(w)
	runs(t, b.child("Deployment", "web-canary"), after, 2)
	b.must(w)
	runs(t, b.child("Deployment", "web"), after, 4)
	b.restart()
	b.must(w)
	runs(t, b.child("Deployment", "web"), after, 4)
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Replicas = int32Of(6) })
	b.must(w)
	runs(t, b.child("Deployment", "web"), before, 6)
	runs(t, b.child("Deployment", "web-canary"), digest, 2)
	if w.Status.Rollout.Step != 1 {
		t.Errorf("%+v", w.Status.Rollout)
	}
}

func TestRollout_ASecretThatChangesMidwayWaitsForTheStablePods(t *testing.T) {
	b := newBench(t)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: b.namespace}, StringData: map[string]string{"A": "1"}}
	create(t, s)
	w, _, _ := b.canarying("web", stepwise, func(w *v1beta1.Workload) { w.Spec.Secrets = []v1beta1.SecretRef{{Name: "token", EnvFrom: true}} })
	was, canary := liveMark(b.child("Deployment", "web")), liveMark(b.child("Deployment", "web-canary"))
	if was == "" || was != canary {
		t.Fatalf("marks %q and %q", was, canary)
	}
	s.StringData = map[string]string{"A": "2"}
	if err := api.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	b.must(w)
	if liveMark(b.child("Deployment", "web")) != was || liveMark(b.child("Deployment", "web-canary")) == was {
		t.Error("the stable pods are rolled, or the canary's are not")
	}
	b.calm(w, "midway")
	for range 2 {
		b.passes(w)
		b.must(w)
	}
	b.rests(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if liveMark(b.child("Deployment", "web")) == was {
		t.Error("the pods have the old Secret")
	}
	b.calm(w, "after it")
}

// Cut off after any write, in any stage, a rollout ends where it would have.
func TestRollout_CanBeCutOffAnywhere(t *testing.T) {
	for name, outcome := range map[string]v1beta1.MeasurementOutcome{"forth": v1beta1.MeasurementPassed, "back": v1beta1.MeasurementFailed} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.analysis = &gauge{outcome: outcome, value: "1"}
			b.restart()
			w := b.running("web", stepwise, measuredBy("errors"))
			b.must(w)
			before, after := b.release(w)
			cut := false
			b.lose = func(string) error {
				if cut = !cut; cut {
					return apierrors.NewInternalError(errors.New("cut off"))
				}
				return nil
			}
			for range 60 {
				if _, err := b.reconcile(w); err != nil {
					b.restart()
				}
				b.stepped(w)
				b.collect()
				b.clock.move(11 * time.Second)
			}
			b.lose = nil
			b.rests(w)
			want, phase, reason := after, v1beta1.PhaseReady, reasonReady
			if name == "back" {
				want, phase, reason = before, v1beta1.PhaseDegraded, reasonRolloutFailed
			}
			b.expect(w, phase, reason)
			runs(t, b.child("Deployment", "web"), want, 4)
			if b.child("Deployment", "web-canary") != nil || len(b.records()) != 1 {
				t.Errorf("left behind: %v", names(b.children()))
			}
			b.calm(w, "after it")
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
				t.Fatal(err)
			}
		})
	}
}
