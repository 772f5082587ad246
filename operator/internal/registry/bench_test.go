package registry

import (
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// BenchmarkClient_ByTag looks up a tag and reads its bundle in a registry that is 20 ms
// away: with nothing known, and with all but the tag known.
func BenchmarkClient_ByTag(b *testing.B) {
	s := newShop(b, testkit.RegistryOptions{Referrers: true})
	ok(b, signBundle(s))
	s.SetLatency(20 * time.Millisecond)
	want := gate.Want{Signatures: true}
	verify := func(c *Client) {
		digest, err := c.Resolve(b.Context(), s.ref(b, ":1"), nil)
		ok(b, err)
		_, err = c.Evidence(b.Context(), s.repository, digest, want, some(want), nil)
		ok(b, err)
	}
	b.Run("cold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			verify(New(Options{}))
		}
	})
	b.Run("warm", func(b *testing.B) {
		c := New(Options{})
		verify(c)
		b.ReportAllocs()
		for b.Loop() {
			verify(c)
		}
	})
}

// BenchmarkClient_FromMemory is what a reconcile of a pinned image costs.
func BenchmarkClient_FromMemory(b *testing.B) {
	s := newShop(b, testkit.RegistryOptions{Referrers: true})
	ok(b, signBundle(s))
	want := gate.Want{Signatures: true}
	now := time.Now()
	c := New(Options{Now: func() time.Time { return now }})
	b.ReportAllocs()
	for b.Loop() {
		_, err := c.Evidence(b.Context(), s.repository, s.digest, want, some(want), nil)
		ok(b, err)
	}
}
