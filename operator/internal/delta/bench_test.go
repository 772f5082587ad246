package delta_test

import (
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/delta"
)

// The cost of one look at all children of a Workload that is as it should be.
func BenchmarkCompare_AtRest(b *testing.B) {
	desired, live := apply(b, full())
	b.ReportAllocs()
	for b.Loop() {
		for i := range desired {
			changes, err := delta.Compare(desired[i], live[i])
			if err != nil || len(changes) != 0 {
				b.Fatal(changes, err)
			}
		}
	}
}
