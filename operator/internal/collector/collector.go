// Package collector paces Go's garbage collector for a command that does one large thing and
// ends, where a server's pace would have it run most of the time.
package collector

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// memoryFloor is the memory, in bytes, that the collector leaves alone: Go's own pace, in
	// parts of what is alive, has a check of a thousand Workloads marked some forty times.
	memoryFloor = 48 << 20
	// gcPercent is the pace above it, less than Go's own: a sixth less of memory than at 80,
	// for a tenth more of processor time.
	gcPercent = 60
	// slack is how many bytes later the collector comes by itself where there are pauses for
	// it: it begins before the heap is as large as it may be, and would come before them.
	slack = 10 << 20
)

// pacing is one for the process, as the collector is.
var pacing struct {
	sync.Mutex
	// limit of memory, without slack. 0 where Pace was not called, or leaves the pace alone.
	limit int64
	// pauses is how many were begun and have not ended.
	pauses int
}

// Pace has nothing collected before the process has memoryFloor, and what is alive grow by
// gcPercent where it needs more. Who sets GOGC or GOMEMLIMIT knows better.
func Pace() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	pacing.Lock()
	setLimit(memoryFloor)
	pacing.Unlock()
	onCollection()
}

// setLimit of memory, without slack. The caller holds pacing.
func setLimit(limit int64) {
	pacing.limit = limit
	if pacing.pauses > 0 {
		limit += slack
	}
	debug.SetMemoryLimit(limit)
}

// onCollection sets the limit anew after each collection: kept under one that has little more
// room than what is alive takes, the collector would run all the time.
func onCollection() {
	runtime.AddCleanup(new([16]byte), func(struct{}) {
		pacing.Lock()
		defer pacing.Unlock()
		if pacing.limit == 0 {
			return
		}
		h := readHeap()
		setLimit(limitFor(debug.SetMemoryLimit(-1), h.live, h.goal))
		onCollection()
	}, struct{}{})
}

// limitFor is the limit of memory that has the next collection when what is alive has grown by
// gcPercent, memoryFloor at least. Under limit it would be when the heap is goal: the rest of
// the limit is what stacks, and gaps in the heap, take of it.
func limitFor(limit, live, goal int64) int64 {
	return max(memoryFloor, limit-goal+live*(100+gcPercent)/100)
}

// heap in bytes: what was alive at the end of the last collection, what is there now, and at
// how much the next collection is to have ended; and how many collections have.
type heap struct{ live, used, goal, collections int64 }

func readHeap() heap {
	found := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(found)
	of := func(i int) int64 { return int64(found[i].Value.Uint64()) }
	return heap{live: of(0), used: of(1), goal: of(2), collections: of(3)}
}
