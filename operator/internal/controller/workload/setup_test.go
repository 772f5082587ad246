package workload

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

func TestReconcile_LeavesTheWorkloadsOfAnotherShardAlone(t *testing.T) {
	b := newBench(t)
	b.shard = labels.SelectorFromSet(labels.Set{"shard": "a"})
	b.restart()
	w := b.workload("web", func(w *v1beta1.Workload) { w.Labels = map[string]string{"shard": "b"} })
	if result := b.must(w); result != (reconcile.Result{}) || len(b.taken()) != 0 {
		t.Errorf("touched: %v", result)
	}
	b.update(w, func(w *v1beta1.Workload) { w.Labels["shard"] = "a" })
	b.must(w)
	b.expect(w, v1beta1.PhaseProgressing, reasonProgressing)
	b.healthy(w)
	b.update(w, func(w *v1beta1.Workload) { w.Labels["shard"] = "b" })
	b.taken()
	b.must(w)
	if writes := b.taken(); len(writes) != 0 {
		t.Errorf("a Workload that was moved away is still written: %v", writes)
	}

	b.shard = labels.SelectorFromSet(labels.Set{"shard": "b"})
	b.restart()
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
}

func TestJittered_SpreadsWhatFailedTogether(t *testing.T) {
	limiter := jittered{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 8*time.Second)}
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second} {
		pauses := map[time.Duration]bool{}
		for i := range 32 {
			request := reconcile.Request{}
			request.Name = string(rune('a' + i))
			pause := limiter.When(request)
			if pause < want || pause > want+want/4 {
				t.Errorf("%s, want %s and up to a quarter more", pause, want)
			}
			pauses[pause] = true
		}
		if len(pauses) < 16 {
			t.Errorf("32 failures come back at %d different times", len(pauses))
		}
	}
}
