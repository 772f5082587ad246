package collector

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestLimitFor_LeavesRoomForMoreThanWhatIsAlive(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct{ limit, live, goal, want int64 }{
		"little is alive":                   {memoryFloor, 10 * mib, 34 * mib, memoryFloor},
		"as much as the limit has room for": {memoryFloor, 20 * mib, 32 * mib, memoryFloor},
		"little room above what is alive":   {memoryFloor, 20 * mib, 22 * mib, memoryFloor + 10*mib},
		"more than the limit":               {memoryFloor, 100 * mib, 40 * mib, memoryFloor + 120*mib},
		"less than before":                  {memoryFloor + 120*mib, 100 * mib, 170 * mib, memoryFloor + 110*mib},
		"little again":                      {memoryFloor + 120*mib, 10 * mib, 150 * mib, memoryFloor},
	} {
		if got := limitFor(c.limit, c.live, c.goal); got != c.want {
			t.Errorf("%s: %d MiB and not %d", name, got/mib, c.want/mib)
		}
	}
}

// With more alive than the floor, the limit follows it. The collector runs in time of its own,
// and what is run after it too.
func TestPace_FollowsWhatIsAlive(t *testing.T) {
	paced(t)
	if got := debug.SetMemoryLimit(-1); got != memoryFloor {
		t.Fatalf("the limit is %d, and should be %d", got, memoryFloor)
	}
	held := make([]byte, 2*memoryFloor)
	for debug.SetMemoryLimit(-1) < 3*memoryFloor && t.Context().Err() == nil {
		runtime.GC()
		runtime.Gosched()
	}
	runtime.KeepAlive(held)
}

func TestPace_LeavesAloneWhatWasSet(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(123))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	t.Setenv("GOGC", "123")
	Pace()
	if percent, limit := debug.SetGCPercent(123), debug.SetMemoryLimit(-1); percent != 123 || limit != math.MaxInt64 {
		t.Errorf("%d percent, %d bytes", percent, limit)
	}
}
