package main

import (
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// The next collection is at the floor, or where what is alive has grown by gcPercent.
func TestPercentFor_HasTheHeapGrowToTheFloorAtLeast(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct{ live, scanned, want int }{
		"nothing yet":           {0, 0, heapFloor * 100 / mib},
		"little":                {4 * mib, 6 * mib, (heapFloor - 4*mib) * 100 / (6 * mib)},
		"half of the floor":     {heapFloor / 2, heapFloor / 2, 100},
		"nearly the floor":      {heapFloor - mib, heapFloor, gcPercent},
		"more than the floor":   {4 * heapFloor, 4 * heapFloor, gcPercent},
		"stacks that are large": {mib, heapFloor, (heapFloor - mib) * 100 / heapFloor},
	} {
		if got := percentFor(c.live, c.scanned); got != c.want {
			t.Errorf("%s: %d and not %d", name, got, c.want)
		}
	}
}

func TestPaceCollector_SetsTheFirstCollectionToo(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	paceCollector()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	if metrics.Read(goal); goal[0].Value.Uint64() < heapFloor*9/10 {
		t.Errorf("the next collection is at %d bytes, and should be at %d", goal[0].Value.Uint64(), heapFloor)
	}
}

func TestPaceCollector_LeavesAloneWhatWasSet(t *testing.T) {
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "123")
	paceCollector()
	if got := debug.SetGCPercent(123); got != 123 {
		t.Errorf("the pace is %d percent, and was set to 123", got)
	}
}
