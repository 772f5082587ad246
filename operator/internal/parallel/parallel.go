// Package parallel does many things side by side.
package parallel

import (
	"sync"
	"sync/atomic"
)

// Do does n things, some of them at a time, and returns when all are done.
func Do(atOnce, n int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(atOnce, n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}
