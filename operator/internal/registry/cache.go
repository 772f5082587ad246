package registry

import (
	"time"

	"github.com/sluice-dev/sluice/operator/internal/lru"
)

// entryOverhead is what an entry takes beside its content: map, list and headers.
const entryOverhead = 256

// memory keeps what was read from registries. It knows how old an entry is and not how old
// it may be: that is for who asks to say. Nothing in it was verified.
type memory struct {
	now  clock
	kept *lru.Cache[string, entry]
}

// entry is what was read, and when.
type entry struct {
	value any
	at    time.Time
}

func newMemory(limit, most int, now clock) *memory {
	return &memory{now: now, kept: lru.New[string, entry](limit, most)}
}

// get returns what was put under key within the last age.
func (m *memory) get(key string, age time.Duration) (any, bool) {
	c, ok := m.kept.Get(key)
	if !ok || m.now().Sub(c.at) >= age {
		return nil, false
	}
	return c.value, true
}

// put keeps a value that takes so many bytes, if one may take that many.
func (m *memory) put(key string, value any, bytes int) {
	m.kept.Put(key, entry{value: value, at: m.now()}, len(key)+entryOverhead+bytes)
}

// drop forgets what was put under key.
func (m *memory) drop(key string) { m.kept.Drop(key) }

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
