package gather

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

func TestBundles_KeepTheLastUsedWithinTheirBytes(t *testing.T) {
	b := newBundles(nil, nil, nil)
	key := func(i int) bundleKey { return bundleKey{byte(i), byte(i >> 8)} }
	text := strings.Repeat("#", limits.PolicyBytes)
	const room = limits.PolicyBundles / limits.PolicyBytes
	for i := range 2 * room {
		b.keep(key(i), gate.PolicySet{Name: strconv.Itoa(i), Modules: map[string]string{"a.rego": text}})
		if _, ok := b.kept.Get(key(0)); !ok {
			t.Fatalf("the one that is used all the time is gone after %d", i)
		}
	}
	// What an entry takes beside its modules is counted too.
	if b.kept.Len() >= room || b.kept.Len() < room-2 {
		t.Errorf("%d of %d bytes are kept in %d", b.kept.Len(), limits.PolicyBytes, limits.PolicyBundles)
	}
	if last, ok := b.kept.Get(key(2*room - 1)); !ok || last.Name != strconv.Itoa(2*room-1) {
		t.Errorf("the last one: %v, %t", last.Name, ok)
	}
}

// BenchmarkBundles_Kept is what memory costs a decision by policies from a registry.
func BenchmarkBundles_Kept(b *testing.B) {
	key := func(i int) bundleKey { return bundleKey{byte(i), byte(i >> 8), byte(i >> 16)} }
	set := gate.PolicySet{Name: "main", Modules: map[string]string{"main.rego": "package main"}}
	b.Run("known", func(b *testing.B) {
		known := newBundles(nil, nil, nil)
		known.keep(key(1), set)
		b.ReportAllocs()
		for b.Loop() {
			known.kept.Get(key(1))
		}
	})
	b.Run("new", func(b *testing.B) {
		full := newBundles(nil, nil, nil)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			full.keep(key(i), set)
		}
	})
}
