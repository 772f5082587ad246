package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// heapFloor is the heap, in bytes, below which nothing is collected: Go's own pace, in parts
	// of what is alive, has a check of a thousand Workloads marked some forty times.
	heapFloor = 32 << 20
	// gcPercent is the pace above it, less than Go's own: a sixth less of memory than at 80,
	// for a tenth more of processor time.
	gcPercent = 60
)

// paceCollector has nothing collected before the heap is heapFloor, and what is alive grow by
// gcPercent where that is more. Who sets GOGC or GOMEMLIMIT knows better.
func paceCollector() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	setPace()
	onCollection()
}

// onCollection sets the pace to the next collection, after each.
func onCollection() {
	runtime.AddCleanup(new([16]byte), func(struct{}) {
		setPace()
		onCollection()
	}, struct{}{})
}

// setPace tells Go when to collect next. It takes that in percent of what it goes through, and
// not as a size: what the last collection found alive, stacks and globals.
func setPace() {
	scanned := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(scanned)
	live := int(scanned[0].Value.Uint64())
	debug.SetGCPercent(percentFor(live, live+int(scanned[1].Value.Uint64()+scanned[2].Value.Uint64())))
}

// percentFor is the pace for so many bytes alive of a heap, and so many that are gone through.
func percentFor(live, scanned int) int {
	return max(gcPercent, (heapFloor-live)*100/max(scanned, 1<<20))
}
