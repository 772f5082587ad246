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
	const n = 2 * limits.PolicyBundles / limits.PolicyBytes
	for i := range n {
		b.put(key(i), gate.PolicySet{Name: strconv.Itoa(i), Modules: map[string]string{"a.rego": text}})
		b.put(key(i), gate.PolicySet{Name: "another"}) // verified a second time at the same moment
		if _, ok := b.get(key(0)); !ok {
			t.Fatalf("the one that is used all the time is gone after %d", i)
		}
		if b.bytes > limits.PolicyBundles || len(b.entries) != b.order.Len() {
			t.Fatalf("%d bytes in %d entries", b.bytes, len(b.entries))
		}
	}
	if _, ok := b.get(key(1)); ok {
		t.Error("one that was not used is still there")
	}
	if last, ok := b.get(key(n - 1)); !ok || last.Name != strconv.Itoa(n-1) {
		t.Errorf("the last one: %v, %t", last.Name, ok)
	}
}
