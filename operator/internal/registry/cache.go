package registry

import (
	"container/list"
	"sync"
	"time"
)

// entryOverhead is what an entry takes beside its content: map, list and headers.
const entryOverhead = 256

// memory keeps what was read from registries, the least recently used leaving first when
// its bytes run out. It knows how old an entry is and not how old it may be: that is for
// who asks to say. Nothing in it was verified.
type memory struct {
	now   func() time.Time
	limit int
	// most is what one entry may take: it would drive out too much else.
	most int

	mu      sync.Mutex
	bytes   int
	entries map[string]*list.Element
	order   *list.List
}

type entry struct {
	key   string
	value any
	at    time.Time
	bytes int
}

func newMemory(limit, most int, now func() time.Time) *memory {
	return &memory{now: now, limit: limit, most: most, entries: map[string]*list.Element{}, order: list.New()}
}

// get returns what was put under key within the last age.
func (m *memory) get(key string, age time.Duration) (any, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	element, ok := m.entries[key]
	if !ok || m.now().Sub(element.Value.(*entry).at) >= age {
		return nil, false
	}
	m.order.MoveToFront(element)
	return element.Value.(*entry).value, true
}

// put keeps a value that takes so many bytes, if one may take that many.
func (m *memory) put(key string, value any, bytes int) {
	bytes += len(key) + entryOverhead
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.entries[key]; ok {
		m.drop(old)
	}
	if bytes > m.most {
		return
	}
	m.entries[key] = m.order.PushFront(&entry{key: key, value: value, at: m.now(), bytes: bytes})
	m.bytes += bytes
	for m.bytes > m.limit {
		m.drop(m.order.Back())
	}
}

func (m *memory) drop(element *list.Element) {
	e := m.order.Remove(element).(*entry)
	delete(m.entries, e.key)
	m.bytes -= e.bytes
}

func sizeOf(all []descriptor) int {
	sum := 0
	for _, d := range all {
		sum += entryOverhead + len(d.MediaType) + len(d.ArtifactType) + len(d.Digest)
		for k, v := range d.Annotations {
			sum += len(k) + len(v) + 32
		}
	}
	return sum
}
