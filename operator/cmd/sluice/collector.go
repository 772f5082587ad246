package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// memoryFloor is the memory, in bytes, that the collector leaves alone: Go's own pace, in
	// parts of what is alive, has a check of a thousand Workloads marked some forty times.
	memoryFloor = 50 << 20
	// gcPercent is the pace above it, less than Go's own: a sixth less of memory than at 80,
	// for a tenth more of processor time.
	gcPercent = 60
)

// paceCollector has nothing collected before the process has memoryFloor, and what is alive
// grow by gcPercent where it needs more. Who sets GOGC or GOMEMLIMIT knows better.
func paceCollector() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryFloor)
	onCollection()
}

// onCollection sets the limit anew after each collection: kept under one that has little more
// room than what is alive takes, the collector would run all the time.
func onCollection() {
	runtime.AddCleanup(new([16]byte), func(struct{}) {
		found := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"}}
		metrics.Read(found)
		debug.SetMemoryLimit(limitFor(debug.SetMemoryLimit(-1), int64(found[0].Value.Uint64()), int64(found[1].Value.Uint64())))
		onCollection()
	}, struct{}{})
}

// limitFor is the limit of memory that has the next collection when what is alive has grown by
// gcPercent, memoryFloor at least. Under limit it would be when the heap is goal: the rest of
// the limit is what stacks, and gaps in the heap, take of it.
func limitFor(limit, live, goal int64) int64 {
	return max(memoryFloor, limit-goal+live*(100+gcPercent)/100)
}
