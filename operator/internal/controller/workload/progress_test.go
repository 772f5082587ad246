package workload

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

const pauseOfTests = 2 * time.Second

// paced is a bench whose Reconciler does not tell of each step of a rollout.
func paced(t *testing.T) *bench {
	b := newBench(t)
	b.r.ProgressPause = pauseOfTests
	return b
}

// starts plays a controller of the pods of which so many are available.
func (b *bench) starts(w *v1beta1.Workload, available int32) {
	b.t.Helper()
	d := &appsv1.Deployment{}
	if err := api.Get(b.t.Context(), client.ObjectKeyFromObject(w), d); err != nil {
		b.t.Fatal(err)
	}
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: available, AvailableReplicas: available, UnavailableReplicas: n - available,
	}
	if err := api.Status().Update(b.t.Context(), d); err != nil {
		b.t.Fatal(err)
	}
}

func statusWrites(writes []string) int {
	return len(slices.DeleteFunc(slices.Clone(writes), func(w string) bool { return !strings.Contains(w, "status of Workload") }))
}

func TestReconcile_WritesEachChildOnceAndTwiceMoreForAWorkloadThatStartsSoon(t *testing.T) {
	b := paced(t)
	w := b.workload("web")
	if result := b.must(w); result.RequeueAfter <= 0 || result.RequeueAfter > pauseOfTests {
		t.Errorf("looks again after %s, so that a slow start would not be told", result.RequeueAfter)
	}
	if w.Status.ObservedGeneration != -1 || w.Status.Phase != "" {
		t.Errorf("status is %+v; without one, tools go by its observedGeneration of -1", w.Status)
	}
	b.starts(w, 0)
	b.must(w)
	b.healthy(w)
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if writes, most := b.taken(), len(b.children())+2; len(writes) != most {
		t.Errorf("%d writes, want %d: %v", len(writes), most, writes)
	}
	if told := b.told(); len(told) != 1 || !strings.Contains(told[0], reasonReady) {
		t.Errorf("told %q", told)
	}
}

func TestReconcile_TellsOfProgressAtIntervals(t *testing.T) {
	b := paced(t)
	w := b.workload("web", func(w *v1beta1.Workload) { w.Spec.Replicas = int32Of(9) })
	b.must(w)
	b.clock.move(pauseOfTests)
	b.must(w)
	b.expect(w, v1beta1.PhaseProgressing, reasonProgressing)
	if told := b.told(); len(told) != 1 || !strings.Contains(told[0], reasonProgressing) {
		t.Errorf("told %q of a slow start", told)
	}
	b.taken()
	for available := range int32(9) {
		b.starts(w, available)
		b.must(w)
		b.clock.move(pauseOfTests / 4)
	}
	if n := statusWrites(b.taken()); n != 2 {
		t.Errorf("%d writes of status in %s, want one in %s", n, 2*pauseOfTests, pauseOfTests)
	}
	b.starts(w, 7)
	b.must(w)
	b.clock.move(pauseOfTests)
	b.must(w)
	if w.Status.AvailableReplicas != 7 {
		t.Errorf("%d replicas are available in the end, want the 7 that were held back", w.Status.AvailableReplicas)
	}
	b.taken()
	if b.must(w); len(b.taken()) != 0 {
		t.Error("writes again what it wrote")
	}
}

func TestReconcile_HoldsNothingBackButProgress(t *testing.T) {
	for name, happens := range map[string]func(*bench, *v1beta1.Workload){
		"a new generation": func(b *bench, w *v1beta1.Workload) {
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Version = "2.0.0" })
		},
		"a status that someone else wrote": func(b *bench, w *v1beta1.Workload) {
			w.Status.AvailableReplicas = 77
			if err := api.Status().Update(b.t.Context(), w, client.FieldOwner("intruder")); err != nil {
				b.t.Fatal(err)
			}
		},
		"a pause": func(b *bench, w *v1beta1.Workload) {
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Paused = true })
		},
		"an operator that was started again": func(b *bench, w *v1beta1.Workload) {
			b.starts(w, 0)
			b.restart()
			b.r.ProgressPause = pauseOfTests
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := paced(t)
			w := b.workload("web")
			b.must(w)
			b.clock.move(pauseOfTests)
			b.must(w)
			b.taken()
			happens(b, w)
			b.must(w)
			if n := statusWrites(b.taken()); n == 0 {
				t.Error("it is not told at once")
			}
			if w.Status.ObservedGeneration != w.Generation || w.Status.AvailableReplicas == 77 {
				t.Errorf("status is %+v", w.Status)
			}
		})
	}
}
