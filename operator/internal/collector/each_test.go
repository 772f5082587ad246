package collector

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
)

// paced paces the collector for one test.
func paced(t *testing.T) {
	t.Helper()
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() {
		pacing.Lock()
		pacing.limit = 0
		pacing.Unlock()
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	Pace()
}

// collections that were asked for, and all.
func collections() (forced, all uint64) {
	found := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(found)
	return found[0].Value.Uint64(), found[1].Value.Uint64()
}

func TestEach_DoesEachThingOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 1000} {
		done := make([]atomic.Int32, n)
		Each(n, func(i int) { done[i].Add(1) })
		for i := range done {
			if got := done[i].Load(); got != 1 {
				t.Errorf("%d of %d was done %d times", i, n, got)
			}
		}
	}
}

func TestEach_CollectsBetweenThingsAndNotBesideThem(t *testing.T) {
	paced(t)
	const size = 64 << 10
	const n = 8 * (memoryFloor + slack) / size
	start, _ := collections()
	var beside atomic.Int64
	Each(n, func(i int) {
		before, _ := collections()
		garbage := make([]byte, size+i%2) // of a size that is not known before: on the heap
		after, _ := collections()
		beside.Add(int64(after - before))
		runtime.KeepAlive(garbage)
	})
	forced, _ := collections()
	if beside.Load() != 0 {
		t.Errorf("%d collections began and ended beside a thing that was done", beside.Load())
	}
	if got := forced - start; got < 4 {
		t.Errorf("%d collections for %d MiB of garbage", got, n*size>>20)
	}
}

func TestEach_GivesThePaceBack(t *testing.T) {
	paced(t)
	Each(1, func(int) {
		if got := debug.SetMemoryLimit(-1); got != memoryFloor+slack {
			t.Errorf("the limit is %d beside work", got)
		}
	})
	if got := debug.SetMemoryLimit(-1); got != memoryFloor {
		t.Errorf("the limit is %d, and should be %d", got, memoryFloor)
	}
}

func TestEach_LeavesTheCollectorAloneWhereNothingPacesIt(t *testing.T) {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		t.Skipf("GOMEMLIMIT is %d", limit)
	}
	start, _ := collections()
	Each(100, func(int) { runtime.KeepAlive(make([]byte, 1<<20)) })
	if forced, _ := collections(); forced != start {
		t.Errorf("%d collections were asked for", forced-start)
	}
}
