package workload

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// exempt stores an Exemption of one Workload's signatures.
func (b *bench) exempt(name string, expires time.Time) *v1beta1.Exemption {
	b.t.Helper()
	e := &v1beta1.Exemption{
		ObjectMeta: metav1.ObjectMeta{Name: b.namespace + "-" + name},
		Spec: v1beta1.ExemptionSpec{
			Reason: "incident 4711", Expires: metav1.NewTime(expires), Gates: []string{environment}, Policies: []string{"signature"},
			Objects: []v1beta1.ExemptedObject{{Kind: "Workload", Namespace: b.namespace, Name: name}},
		},
	}
	create(b.t, e)
	b.t.Cleanup(func() { _ = api.Delete(context.Background(), e) })
	return e
}

func (b *bench) unsigned(name string) *v1beta1.Workload {
	b.t.Helper()
	image, _ := push(b.t, b.namespace+"/"+name+":1", name)
	w := &v1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace},
		Spec:       v1beta1.WorkloadSpec{Image: image, Ports: []v1beta1.Port{{Name: "http", Port: 8080}}},
	}
	create(b.t, w)
	return w
}

func TestReconcile_ExemptionEndsWithoutAnEvent(t *testing.T) {
	b := newBench(t)
	w := b.unsigned("web")
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
	b.told()

	end := b.clock.Now().Add(7 * time.Minute).Truncate(time.Second)
	b.exempt("web", end)
	result := b.must(w)
	if left := end.Sub(b.clock.Now()); result.RequeueAfter > left || result.RequeueAfter < left-time.Second {
		t.Errorf("looks again in %s, and the exemption ends in %s", result.RequeueAfter, left)
	}
	gated := conditionOf(w, v1beta1.ConditionGated)
	if gated.Status != metav1.ConditionTrue || gated.Reason != reasonExempted || !strings.Contains(gated.Message, `because "incident 4711"`) ||
		!strings.Contains(gated.Message, end.UTC().Format(time.RFC3339)) {
		t.Errorf("Gated: %+v", gated)
	}
	if verified := conditionOf(w, v1beta1.ConditionImagesVerified); verified.Status != metav1.ConditionFalse || verified.Reason != "Unsigned" {
		t.Errorf("ImagesVerified: %+v", verified)
	}
	if events := strings.Join(b.told(), "\n"); strings.Count(events, "Warning "+reasonExempted) != 1 {
		t.Errorf("events: %q", events)
	}
	if image := imageOf(t, b.child("Deployment", "web")); !strings.Contains(image, "@sha256:") {
		t.Errorf("%s runs, and not the digest that was judged", image)
	}
	b.healthy(w)
	b.must(w)
	b.taken()
	b.must(w)
	if writes := b.taken(); len(writes) > 0 {
		t.Errorf("at rest: %v", writes)
	}

	b.clock.move(end.Sub(b.clock.Now()))
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
	if b.child("Deployment", "web") == nil {
		t.Error("what was running was taken away")
	}
}

func TestManager_WakesWorkloadsForAnExemption(t *testing.T) {
	b := newBench(t)
	image, _ := push(t, b.namespace+"/web:1", "web")
	w := &v1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: b.namespace, Labels: map[string]string{watched: "yes"}},
		Spec:       v1beta1.WorkloadSpec{Image: image},
	}
	create(t, w)
	b.reaches(w, v1beta1.PhaseBlocked, reasonDenied)
	e := b.exempt("web", time.Now().Add(time.Hour))
	b.reaches(w, v1beta1.PhaseProgressing, reasonProgressing)
	if gated := conditionOf(w, v1beta1.ConditionGated); gated.Reason != reasonExempted {
		t.Errorf("Gated: %+v", gated)
	}
	if err := api.Delete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	b.reaches(w, v1beta1.PhaseBlocked, reasonDenied)
}
