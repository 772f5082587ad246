package policy

import "runtime"

// workers run evaluations on goroutines that are used again: OPA recurses deeply, and
// growing the stack of a new goroutine costs a tenth of an evaluation and more.
type workers struct{ idle chan chan func() }

func newWorkers() *workers { return &workers{idle: make(chan chan func(), runtime.GOMAXPROCS(0))} }

// run starts f and returns. It never waits for a worker: one that is left behind in a
// call that does not end must not hold up the others.
func (w *workers) run(f func()) {
	select {
	case worker := <-w.idle:
		worker <- f
	default:
		worker := make(chan func(), 1)
		worker <- f
		go w.work(worker)
	}
}

// work until there are enough idle workers.
func (w *workers) work(own chan func()) {
	for f := range own {
		f()
		select {
		case w.idle <- own:
		default:
			return
		}
	}
}
