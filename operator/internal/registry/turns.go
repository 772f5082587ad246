package registry

import (
	"context"
	"slices"
	"sync"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/lru"
)

// turns are held by decisions, so many at a time, and half of them at most by those of one
// owner, such as a namespace: whoever can have images judged that take long, as they have much
// evidence in a registry that is slow, holds up his own. It is safe for concurrent use.
type turns struct {
	most int
	// above is how many bytes a decision holds without one, and name that of the limit on them.
	above int64
	name  string

	mu   sync.Mutex
	all  int
	held map[string]int
	// waiting, in the order in which they came.
	waiting []*waiting
	// served has when an owner had its last turn, counted in turns.
	served *lru.Cache[string, uint64]
	count  uint64
}

type waiting struct {
	owner string
	// ready is closed when it has its turn.
	ready chan struct{}
}

func newTurns(most int, above int64, name string) *turns {
	return &turns{most: most, above: above, name: name, held: map[string]int{}, served: lru.New[string, uint64](limits.TurnOwners, 1)}
}

// try takes a turn if there is one for the owner now.
func (t *turns) try(owner string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.free(owner) {
		return false
	}
	t.give(owner)
	return true
}

// wait takes a turn, and says whether it came before ctx ended.
func (t *turns) wait(ctx context.Context, owner string) bool {
	t.mu.Lock()
	if t.free(owner) {
		t.give(owner)
		t.mu.Unlock()
		return true
	}
	w := &waiting{owner, make(chan struct{})}
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	select {
	case <-w.ready:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, w)
	if i < 0 {
		return true // it came at the same moment
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return false
}

// leave gives a turn back.
func (t *turns) leave(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.held[owner]--; t.held[owner] == 0 {
		delete(t.held, owner)
	}
	for next := t.next(); next >= 0; next = t.next() {
		w := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		t.give(w.owner)
		close(w.ready)
	}
}

// next is who waits and has gone without a turn the longest, by owner; -1 for nobody.
func (t *turns) next() int {
	best, since := -1, uint64(0)
	for i, w := range t.waiting {
		if last, _ := t.served.Get(w.owner); t.free(w.owner) && (best < 0 || last < since) {
			best, since = i, last
		}
	}
	return best
}

// free says whether there is a turn for the owner. What is nobody's, as in a process that works
// for one alone, is held to the number of all.
func (t *turns) free(owner string) bool {
	return t.all < t.most && (owner == "" || t.held[owner] < t.most/2)
}

func (t *turns) give(owner string) {
	t.all++
	t.held[owner]++
	t.count++
	t.served.Put(owner, t.count, 1)
}
