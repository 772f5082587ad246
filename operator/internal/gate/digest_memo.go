package gate

import (
	"crypto/sha256"
	"sync"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// DigestMemo works out digests, each once: canonical JSON costs ten times what plain JSON does,
// and by that it is told what was seen before. So what was changed has another. The zero
// value is ready, and safe for concurrent use.
type DigestMemo struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]string
}

// Sum is c.Digest(). The policy sets of c are Summed after it.
func (d *DigestMemo) Sum(c *Config) string {
	for i := range c.Policies {
		if c.Policies[i].Sum == "" {
			c.Policies[i].Sum = d.of(c.Policies[i])
		}
	}
	return d.of(c.identity())
}

func (d *DigestMemo) of(v any) string {
	seen := sha256.Sum256(plain(v))
	d.mu.Lock()
	known, ok := d.known[seen]
	d.mu.Unlock()
	if ok {
		return known
	}
	sum := digest(v)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= limits.Digests {
		d.known = map[[sha256.Size]byte]string{}
	}
	d.known[seen] = sum
	return sum
}
