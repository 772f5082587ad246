package collector

import (
	"runtime"
	"sync"

	"github.com/sluice-dev/sluice/operator/internal/parallel"
)

// Each does n things on all cores, and returns when all are done. None may wait for anybody
// else, nor use Each: what there is to collect is collected in pauses, when none is being done,
// and by all cores. Beside work that takes three times as long, slows the work, and keeps all
// that is made meanwhile. Where Pace was not called the collector has its own way.
func Each(n int, do func(i int)) {
	p := begin()
	defer p.end()
	parallel.Do(runtime.GOMAXPROCS(0), n, func(i int) { p.do(func() { do(i) }) })
}

// pauses are those between things that are done side by side; nil for none.
type pauses struct {
	// work is read-locked by each thing that is being done.
	work sync.RWMutex
}

// begin has the collector wait for pauses until they end.
func begin() *pauses {
	pacing.Lock()
	defer pacing.Unlock()
	if pacing.limit == 0 {
		return nil
	}
	pacing.pauses++
	setLimit(pacing.limit)
	return &pauses{}
}

// end gives the collector its own pace back.
func (p *pauses) end() {
	if p == nil {
		return
	}
	pacing.Lock()
	defer pacing.Unlock()
	pacing.pauses--
	setLimit(pacing.limit)
}

// do does one thing, and pauses after it if it is time.
func (p *pauses) do(thing func()) {
	if p == nil {
		thing()
		return
	}
	p.working(thing)
	before := readHeap()
	if !isDue(before) {
		return
	}
	p.work.Lock()
	defer p.work.Unlock()
	// Others may have waited for the same pause.
	if readHeap().collections == before.collections {
		runtime.GC()
	}
}

func (p *pauses) working(thing func()) {
	p.work.RLock()
	defer p.work.RUnlock()
	thing()
}

// isDue says whether the heap is as large as it may be without slack.
func isDue(h heap) bool { return h.used > h.goal-slack }
