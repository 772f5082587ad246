package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// heapFloor is the memory, in bytes, that the collector leaves alone: Go's own pace, in
	// parts of what is alive, has a check of a thousand Workloads marked some forty times.
	heapFloor = 50 << 20
	// gcPercent is the pace above it, less than Go's own: a sixth less of memory than at 80,
	// for a tenth more of processor time.
	gcPercent = 60
	// liveHeap is the metric of what the last collection found alive.
	liveHeap = "/gc/heap/live:bytes"
)

// paceCollector has nothing collected before the process has heapFloor, and from then on by
// gcPercent. Who sets GOGC or GOMEMLIMIT knows better.
func paceCollector() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(heapFloor)
	onCollection()
}

// onCollection looks, after each collection, whether what is alive needs more than the floor
// has room for: kept under it, the collector would run all the time.
func onCollection() {
	runtime.AddCleanup(new([16]byte), func(struct{}) {
		sample := []metrics.Sample{{Name: liveHeap}}
		metrics.Read(sample)
		if sample[0].Value.Uint64()*(100+gcPercent)/100 < heapFloor {
			onCollection()
			return
		}
		debug.SetGCPercent(gcPercent)
		debug.SetMemoryLimit(math.MaxInt64)
	}, struct{}{})
}
