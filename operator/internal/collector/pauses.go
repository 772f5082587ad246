package collector

import (
	"runtime"
	"sync"
)

// Pauses are for many things that are done side by side without waiting for anybody else: what
// is to be collected is collected between them, when none is being done, by all cores. Beside
// work it takes three times as long, slows the work, and keeps all that is made meanwhile.
//
// They do nothing where Pace was not called, and a nil *Pauses never does.
type Pauses struct {
	// work is read-locked by each thing that is done.
	work sync.RWMutex
}

// Begin has the collector wait for pauses until End is called.
func Begin() *Pauses {
	pacing.Lock()
	defer pacing.Unlock()
	if pacing.limit == 0 {
		return nil
	}
	pacing.pauses++
	setLimit(pacing.limit)
	return &Pauses{}
}

// End gives the collector its own pace back.
func (p *Pauses) End() {
	if p == nil {
		return
	}
	pacing.Lock()
	defer pacing.Unlock()
	pacing.pauses--
	setLimit(pacing.limit)
}

// Do does one thing. Before it returns there may be a pause, for which it waits until nothing
// else is being done.
func (p *Pauses) Do(thing func()) {
	if p == nil {
		thing()
		return
	}
	p.do(thing)
	if !isDue(readHeap()) {
		return
	}
	p.work.Lock()
	defer p.work.Unlock()
	// Others may have waited for the same pause.
	if isDue(readHeap()) {
		runtime.GC()
	}
}

func (p *Pauses) do(thing func()) {
	p.work.RLock()
	defer p.work.RUnlock()
	thing()
}

// isDue says whether the heap is as large as it may be without slack.
func isDue(h heap) bool { return h.used > h.goal-slack }
