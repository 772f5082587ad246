// Package lru keeps values within a number of bytes: the least recently used leaves first.
package lru

import (
	"container/list"
	"sync"
)

// Cache keeps values by their keys. What a value takes is told with it, as only its owner
// knows, and has to include what the entry takes itself. Nothing ends by time.
//
// It is safe for concurrent use. A value is given out as it was put in, to all who ask, so
// that it has to stay as it is, or to be copied by who puts and gets it.
type Cache[K comparable, V any] struct {
	limit, most int

	mu      sync.Mutex
	bytes   int
	entries map[K]*list.Element
	// byUse is of *entry[K, V], the last used first.
	byUse *list.List
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int
}

// New makes a Cache of at most limit bytes. One value may take most of them: what takes
// more is not kept, as it would drive out too much else. No value takes more than limit,
// be most what it may.
func New[K comparable, V any](limit, most int) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, most: min(most, limit), entries: map[K]*list.Element{}, byUse: list.New()}
}

// Get returns the value that was put last under the key, and whether it is there. It is the
// last used from then on.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[key]
	if !ok {
		var none V
		return none, false
	}
	c.byUse.MoveToFront(element)
	return element.Value.(*entry[K, V]).value, true
}

// Put keeps a value that takes so many bytes, in place of one that is there under the key.
// A value that is too large takes that one's place too, and is not kept. No entry takes less
// than one byte, so that there are never more of them than bytes.
func (c *Cache[K, V]) Put(key K, value V, bytes int) {
	bytes = max(bytes, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.entries[key]; ok {
		c.drop(old)
	}
	if bytes > c.most {
		return
	}
	c.entries[key] = c.byUse.PushFront(&entry[K, V]{key: key, value: value, bytes: bytes})
	c.bytes += bytes
	for c.bytes > c.limit {
		c.drop(c.byUse.Back())
	}
}

// Drop takes out what is kept under the key, if anything is.
func (c *Cache[K, V]) Drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[key]; ok {
		c.drop(element)
	}
}

func (c *Cache[K, V]) drop(element *list.Element) {
	e := c.byUse.Remove(element).(*entry[K, V])
	delete(c.entries, e.key)
	c.bytes -= e.bytes
}

// Bytes are what all that is kept takes, at most the limit.
func (c *Cache[K, V]) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Len is how many values are kept.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}
