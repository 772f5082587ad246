package policy

import (
	"container/list"
	"context"
	"sync"
)

// cache keeps the units that were used last, compiled. Failures are kept too: a
// unit that does not compile would otherwise cost a compilation per decision.
type cache struct {
	mu      sync.Mutex
	size    int
	byUse   *list.List // of *cached, the last used first
	entries map[string]*list.Element
}

// cached is one unit. set and err may be read once ready is closed.
type cached struct {
	digest string
	ready  chan struct{}
	set    *compiled
	err    error
}

func (c *cached) isReady() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

func newCache(size int) *cache {
	return &cache{size: size, byUse: list.New(), entries: map[string]*list.Element{}}
}

// wait returns the compiled unit. Who cannot wait for it returns with the error of ctx.
func (c *cached) wait(ctx context.Context) (*compiled, error) {
	if c.isReady() {
		return c.set, c.err
	}
	select {
	case <-c.ready:
		return c.set, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// get returns the compiled unit. However many ask for one that is not there, it is
// compiled once, and to the end: the next one who asks finds it done.
func (c *cache) get(ctx context.Context, u unit) (*compiled, error) {
	return c.entry(u).wait(ctx)
}

func (c *cache) entry(u unit) *cached {
	digest := u.digest()
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[digest]; ok {
		c.byUse.MoveToFront(element)
		return element.Value.(*cached)
	}
	entry := &cached{digest: digest, ready: make(chan struct{})}
	c.entries[digest] = c.byUse.PushFront(entry)
	if c.byUse.Len() > c.size {
		oldest := c.byUse.Remove(c.byUse.Back()).(*cached)
		delete(c.entries, oldest.digest)
	}
	go func() {
		defer close(entry.ready)
		entry.set, entry.err = compileUnit(u)
	}()
	return entry
}
