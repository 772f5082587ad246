package workload

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// gauge is a Measurer that tells what it is set to.
type gauge struct {
	outcome v1beta1.MeasurementOutcome
	value   string
	looks   int
}

func (g *gauge) Measure(_ context.Context, metrics []v1beta1.Metric, _ time.Time) []v1beta1.Measurement {
	g.looks++
	var out []v1beta1.Measurement
	for _, m := range metrics {
		out = append(out, v1beta1.Measurement{Metric: m.Name, Outcome: g.outcome, Value: g.value})
	}
	return out
}

// stepwise asks for a canary of two pods a step.
func stepwise(w *v1beta1.Workload) {
	two := intstr.FromInt32(2)
	w.Spec.Replicas = int32Of(4)
	w.Spec.Rollout = &v1beta1.Rollout{
		Strategy: v1beta1.RolloutCanary, RollbackOnFailure: true,
		Canary: &v1beta1.Canary{BatchSize: &two, Interval: &metav1.Duration{Duration: 30 * time.Second}, FailureLimit: 2},
	}
}

func measuredBy(name string) func(*v1beta1.Workload) {
	return func(w *v1beta1.Workload) {
		w.Spec.Rollout.Canary.Analysis = &v1beta1.Analysis{
			Metrics: []v1beta1.Metric{{Name: name, Query: "up", FailIf: "> 0.01"}}, Timeout: &metav1.Duration{Duration: time.Minute},
		}
	}
}

// release changes the image to another one that is signed, and returns the digests before
// and after.
func (b *bench) release(w *v1beta1.Workload) (before, after string) {
	b.t.Helper()
	before = w.Status.Images[0].Digest
	image, after := pushSigned(b.t, b.namespace+"/"+w.Name+":2")
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Image = image })
	return before, after
}

// stepped plays the controllers of the pods, of a canary and by a partition too.
func (b *bench) stepped(w *v1beta1.Workload) {
	b.t.Helper()
	if w.Spec.Storage == nil {
		for _, name := range []string{w.Name, render.CanaryName(w.Name)} {
			d := &appsv1.Deployment{}
			if err := api.Get(b.t.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, d); err != nil {
				continue
			}
			n := *d.Spec.Replicas
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, UpdatedReplicas: n}
			if err := api.Status().Update(b.t.Context(), d); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
	s := &appsv1.StatefulSet{}
	if err := api.Get(b.t.Context(), client.ObjectKeyFromObject(w), s); err != nil {
		b.t.Fatal(err)
	}
	n, kept := *s.Spec.Replicas, int32(0)
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		kept = *u.Partition
	}
	s.Status = appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, UpdatedReplicas: n - kept, CurrentReplicas: kept, CurrentRevision: "a", UpdateRevision: "b"}
	if kept == 0 {
		s.Status.CurrentRevision, s.Status.CurrentReplicas = "b", n
	}
	if err := api.Status().Update(b.t.Context(), s); err != nil {
		b.t.Fatal(err)
	}
}

// passes lets the pods of a step be ready for as long as they are watched.
func (b *bench) passes(w *v1beta1.Workload) {
	b.t.Helper()
	b.stepped(w)
	b.must(w)
	for range 3 {
		b.clock.move(10 * time.Second)
		b.must(w)
	}
	b.clock.move(time.Second)
}

// rests reconciles until what is left behind is gone. The API server counts a Deployment's
// generation up when its annotations change.
func (b *bench) rests(w *v1beta1.Workload) {
	b.t.Helper()
	for range 4 {
		b.must(w)
		b.stepped(w)
		b.collect()
	}
	b.must(w)
}

// canarying makes a Workload that runs and has a stable revision, and releases another.
func (b *bench) canarying(name string, changes ...func(*v1beta1.Workload)) (w *v1beta1.Workload, before, after string) {
	b.t.Helper()
	w = b.running(name, changes...)
	b.must(w)
	b.taken()
	before, after = b.release(w)
	b.must(w)
	return w, before, after
}

func runs(t *testing.T, c *unstructured.Unstructured, digest string, replicas int64) {
	t.Helper()
	if c == nil {
		t.Fatal("no pods' controller")
	}
	if image := imageOf(t, c); !strings.HasSuffix(image, digest) || nestedInt(c, "spec", "replicas") != replicas {
		t.Errorf("%s runs %d of %s, want %d of %s", c.GetName(), nestedInt(c, "spec", "replicas"), image, replicas, digest)
	}
}

func TestRollout_ADeploymentGoesStepByStep(t *testing.T) {
	b := newBench(t)
	w, before, after := b.canarying("web", stepwise)
	b.expect(w, v1beta1.PhaseCanary, "PodsNotReady")
	runs(t, b.child("Deployment", "web"), before, 4)
	runs(t, b.child("Deployment", "web-canary"), after, 2)
	want := &v1beta1.RolloutStatus{StableDigest: before, CurrentDigest: after, Step: 1, Steps: 2, Message: "step 1 of 2 (2 pods): waiting for its pods to be ready"}
	if diff := cmp.Diff(want, w.Status.Rollout); diff != "" {
		t.Error(diff)
	}
	b.taken()
	b.must(w)
	if writes := b.taken(); len(writes) != 0 {
		t.Errorf("a step that is waited for is written: %v", writes)
	}
	b.passes(w)
	b.must(w)
	runs(t, b.child("Deployment", "web"), after, 4)
	runs(t, b.child("Deployment", "web-canary"), after, 2)
	if w.Status.Phase != v1beta1.PhaseCanary || w.Status.Rollout.Step != 2 {
		t.Errorf("%s: %+v", w.Status.Phase, w.Status.Rollout)
	}
	b.passes(w)
	b.rests(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if c := b.child("Deployment", "web-canary"); c != nil {
		t.Error("the canary is still there")
	}
	if diff := cmp.Diff(&v1beta1.RolloutStatus{StableDigest: after, CurrentDigest: after}, w.Status.Rollout); diff != "" {
		t.Error(diff)
	}
	b.taken()
	for range 3 {
		b.must(w)
	}
	if writes := b.taken(); len(writes) != 0 {
		t.Errorf("at rest: %v", writes)
	}
}

func TestRollout_AStatefulSetGoesByItsPartition(t *testing.T) {
	b := newBench(t)
	w, _, after := b.canarying("db", everything, stepwise)
	for i, kept := range []int64{2, 0} {
		s := b.child("StatefulSet", "db")
		runs(t, s, after, 4)
		if got := nestedInt(s, "spec", "updateStrategy", "rollingUpdate", "partition"); got != kept || w.Status.Phase != v1beta1.PhaseCanary {
			t.Errorf("step %d: %s, %d pods are kept, want %d", i+1, w.Status.Phase, got, kept)
		}
		b.passes(w)
		b.must(w)
	}
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if w.Status.Rollout.StableDigest != after {
		t.Errorf("%+v", w.Status.Rollout)
	}
}

func TestRollout_AFailingMetricTakesItBackAndItIsNotTriedAgain(t *testing.T) {
	for name, kind := range map[string]func(*v1beta1.Workload){"a Deployment": full, "a StatefulSet": everything} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			g := &gauge{outcome: v1beta1.MeasurementFailed, value: "0.5"}
			b.analysis = g
			b.restart()
			w, before, after := b.canarying("web", kind, stepwise, measuredBy("errors"))
			b.told()
			b.passes(w)
			for range 3 {
				b.stepped(w)
				b.collect()
				b.must(w)
			}
			b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
			p := b.child("Deployment", "web")
			if w.Spec.Storage != nil {
				p = b.child("StatefulSet", "web")
			}
			runs(t, p, before, 4)
			if nestedInt(p, "spec", "updateStrategy", "rollingUpdate", "partition") != 0 || b.child("Deployment", "web-canary") != nil {
				t.Errorf("some of the canary is left: %v", p.Object["spec"])
			}
			r := w.Status.Rollout
			if r.FailedDigest != after || r.StableDigest != before || len(r.Measurements) != 1 || r.Measurements[0].Value != "0.5" {
				t.Errorf("%+v", r)
			}
			if events := strings.Join(b.told(), "\n"); !strings.Contains(events, "RolloutFailed") || !strings.Contains(events, "errors 0.5 (Failed)") {
				t.Errorf("events: %s", events)
			}

			// Neither time, a restart nor another number of pods is a reason to try again.
			looks := g.looks
			g.outcome = v1beta1.MeasurementPassed
			b.clock.move(time.Hour)
			b.restart()
			b.must(w)
			b.taken()
			b.must(w)
			if writes := b.taken(); len(writes) != 0 {
				t.Errorf("at rest: %v", writes)
			}
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Replicas = int32Of(3) })
			b.must(w)
			b.stepped(w)
			b.must(w)
			b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
			if g.looks != looks {
				t.Error("what failed is measured again")
			}
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Version = "2.0.0" })
			b.must(w)
			if w.Status.Phase != v1beta1.PhaseCanary {
				t.Errorf("a changed spec is not tried: %s %+v", w.Status.Phase, w.Status.Rollout)
			}
		})
	}
}

func TestRollout_APodThatIsNeverReadyFailsByTheDeadline(t *testing.T) {
	short := func(back bool) func(*v1beta1.Workload) {
		return func(w *v1beta1.Workload) {
			w.Spec.Rollout.ProgressDeadline, w.Spec.Rollout.RollbackOnFailure = &metav1.Duration{Duration: time.Minute}, back
		}
	}
	rolling := func(w *v1beta1.Workload) {
		w.Spec.Replicas = int32Of(4)
		w.Spec.Rollout = &v1beta1.Rollout{}
	}
	for name, tc := range map[string]struct {
		changes []func(*v1beta1.Workload)
		canary  bool
		stays   bool
	}{
		"a canary goes back":                         {changes: []func(*v1beta1.Workload){stepwise, short(true)}},
		"a canary stays where that is not asked for": {changes: []func(*v1beta1.Workload){stepwise, short(false)}, canary: true, stays: true},
		"a rolling update goes back":                 {changes: []func(*v1beta1.Workload){rolling, short(true)}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w, before, after := b.canarying("web", tc.changes...)
			b.clock.move(61 * time.Second)
			b.must(w)
			b.collect()
			if !tc.stays {
				b.stepped(w)
			}
			b.must(w)
			b.must(w)
			b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
			runs(t, b.child("Deployment", "web"), before, 4)
			if c := b.child("Deployment", "web-canary"); (c != nil) != tc.canary {
				t.Errorf("canary: %v", c)
			}
			if w.Status.Rollout.FailedDigest != after {
				t.Errorf("%+v", w.Status.Rollout)
			}
		})
	}
}

func TestRollout_GoesOnWhereItWasAfterARestart(t *testing.T) {
	b := newBench(t)
	w, _, after := b.canarying("web", stepwise)
	b.passes(w)
	b.must(w)
	b.restart()
	b.must(w)
	if w.Status.Phase != v1beta1.PhaseCanary || w.Status.Rollout.Step != 2 {
		t.Fatalf("%s: %+v", w.Status.Phase, w.Status.Rollout)
	}
	runs(t, b.child("Deployment", "web"), after, 4)
}

func TestRollout_DoesNotBelieveANoteThatSomeoneElseWrote(t *testing.T) {
	b := newBench(t)
	w, before, _ := b.canarying("web", stepwise)
	note := &course{}
	d := b.child("Deployment", "web")
	if err := json.Unmarshal([]byte(d.GetAnnotations()[annotationRollout]), note); err != nil {
		t.Fatal(err)
	}
	note.Step = 1
	raw, err := json.Marshal(note)
	if err != nil {
		t.Fatal(err)
	}
	b.edit("Deployment", "web", func(d *unstructured.Unstructured) {
		setNested(t, d, string(raw), "metadata", "annotations", annotationRollout)
	})
	b.restart()
	b.must(w)
	if w.Status.Rollout.Step != 1 {
		t.Errorf("%+v", w.Status.Rollout)
	}
	runs(t, b.child("Deployment", "web"), before, 4)
}

func TestRollout_AnotherSpecEndsTheOneBefore(t *testing.T) {
	b := newBench(t)
	w, before, _ := b.canarying("web", stepwise)
	stable := depot.Host() + "/" + b.namespace + "/web:1"
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Image = stable })
	b.must(w)
	b.stepped(w)
	b.must(w)
	b.collect()
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	runs(t, b.child("Deployment", "web"), before, 4)
	if b.child("Deployment", "web-canary") != nil {
		t.Error("the canary is still there")
	}
}

func TestRollout_ASecondReleaseTakesThePlaceOfTheFirst(t *testing.T) {
	b := newBench(t)
	w, before, _ := b.canarying("web", stepwise)
	b.passes(w)
	image, third := pushSigned(t, b.namespace+"/web:3")
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Image = image })
	b.must(w)
	runs(t, b.child("Deployment", "web"), before, 4)
	runs(t, b.child("Deployment", "web-canary"), third, 2)
	if w.Status.Rollout.Step != 1 {
		t.Errorf("%+v", w.Status.Rollout)
	}
}

func TestRollout_KeepsWhatTheOldPodsNeed(t *testing.T) {
	b := newBench(t)
	config := func(value string) func(*v1beta1.Workload) {
		return func(w *v1beta1.Workload) {
			w.Spec.Config = &v1beta1.ConfigFiles{MountPath: "/etc/app", Files: map[string]string{"a": value}}
		}
	}
	w := b.running("web", stepwise, config("1"))
	b.must(w)
	var old string
	for name := range b.children() {
		if strings.HasPrefix(name, "ConfigMap/web-config-") {
			old = strings.TrimPrefix(name, "ConfigMap/")
		}
	}
	b.update(w, config("2"))
	b.must(w)
	if err := api.Delete(t.Context(), b.child("ConfigMap", old)); err != nil {
		t.Fatal(err)
	}
	b.must(w)
	if b.child("ConfigMap", old) == nil {
		t.Error("the old pods' ConfigMap is not put back during a canary")
	}
	for range 2 {
		b.passes(w)
		b.must(w)
	}
	b.rests(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if b.child("ConfigMap", old) != nil {
		t.Error("the old ConfigMap is left behind")
	}
}

// The way back is gated as the way forth.
func TestRollout_DoesNotGoBackToWhatIsNotAllowedAnyMore(t *testing.T) {
	b := newBench(t)
	b.analysis = &gauge{outcome: v1beta1.MeasurementFailed, value: "1"}
	b.restart()
	w, before, after := b.canarying("web", stepwise, measuredBy("errors"))
	depot.Override(testkit.PathContains(strings.Replace(before, ":", "-", 1)), testkit.Status(http.StatusNotFound))
	t.Cleanup(depot.Restore)
	b.restart()
	b.passes(w)
	b.must(w)
	b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
	if m := w.Status.Rollout.Message; !strings.Contains(m, "the gate does not allow the stable revision any more") {
		t.Errorf("message: %s", m)
	}
	runs(t, b.child("Deployment", "web"), before, 4)
	runs(t, b.child("Deployment", "web-canary"), after, 2)
}

func TestRollout_FreesPodsThatHoldUpTheWayBack(t *testing.T) {
	b := newBench(t)
	b.analysis = &gauge{outcome: v1beta1.MeasurementFailed, value: "1"}
	b.restart()
	w, _, _ := b.canarying("db", everything, stepwise, measuredBy("errors"))
	s := b.child("StatefulSet", "db")
	pod := func(name, revision string, ready corev1.ConditionStatus) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace, Labels: map[string]string{"controller-revision-hash": revision}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "i"}}},
		}
		for k, v := range render.Selector("db") {
			p.Labels[k] = v
		}
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s, s.GroupVersionKind())}
		create(t, p)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		if err := api.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	pod("db-3", "bad", corev1.ConditionFalse)
	pod("db-2", "bad", corev1.ConditionTrue)
	pod("db-1", "b", corev1.ConditionFalse)
	b.passes(w)
	if w.Status.Phase != v1beta1.PhaseRollingBack {
		t.Fatalf("%s %+v", w.Status.Phase, w.Status.Rollout)
	}
	stuck := &appsv1.StatefulSet{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(w), stuck); err != nil {
		t.Fatal(err)
	}
	stuck.Status = appsv1.StatefulSetStatus{ObservedGeneration: stuck.Generation, Replicas: 4, ReadyReplicas: 2, CurrentRevision: "bad", UpdateRevision: "b", UpdatedReplicas: 2}
	if err := api.Status().Update(t.Context(), stuck); err != nil {
		t.Fatal(err)
	}
	b.must(w)
	left := &corev1.PodList{}
	if err := api.List(t.Context(), left, client.InNamespace(b.namespace)); err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, p := range left.Items {
		if p.DeletionTimestamp == nil {
			kept = append(kept, p.Name)
		}
	}
	if diff := cmp.Diff([]string{"db-1", "db-2"}, kept); diff != "" {
		t.Error(diff)
	}
}

func TestRollout_SaysThatThereIsNoPrometheus(t *testing.T) {
	b := newBench(t)
	w, _, _ := b.canarying("web", stepwise, measuredBy("errors"))
	b.passes(w)
	b.must(w)
	if m := conditionOf(w, v1beta1.ConditionReady).Message; w.Status.Phase != v1beta1.PhaseCanary || !strings.Contains(m, "--prometheus-address") {
		t.Errorf("%s: %s", w.Status.Phase, m)
	}
}
