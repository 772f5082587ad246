package workload

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/notary"
)

// attestations are the counts of a Gate's evidence as the manager shows them, by result.
func attestations(t *testing.T, gate string) map[string]float64 {
	t.Helper()
	families, err := shown.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["gate"] == gate {
				out[labels["result"]] = m.GetCounter().GetValue()
			}
		}
	}
	return out
}

func TestManager_ForgetsTheSeriesOfAGateThatIsDeleted(t *testing.T) {
	gone := &v1beta1.Gate{}
	b := newSoaking(t, func(g *v1beta1.Gate) {
		g.Spec.Attest.Soak = &metav1.Duration{Duration: time.Second}
		gone = g
	})
	w := b.workload("web", seen)
	b.runs(w)
	b.runningPod(w, time.Now().Add(-time.Minute))
	eventually(t, "evidence is counted", func(context.Context) error {
		if counts := attestations(t, gone.Name); counts[notary.ResultWritten] != 1 {
			return fmt.Errorf("counted are %v", counts)
		}
		return nil
	})
	counting(environment, notary.ResultPresent)

	if err := api.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the series go", func(context.Context) error {
		if counts := attestations(t, gone.Name); len(counts) != 0 {
			return fmt.Errorf("there are %v", counts)
		}
		return nil
	})
	counting(gone.Name, notary.ResultFailed) // one that was under way
	if counts := attestations(t, gone.Name); len(counts) != 0 {
		t.Errorf("what ends later brings %v back", counts)
	}
	if counts := attestations(t, environment); counts[notary.ResultPresent] == 0 {
		t.Error("the series of another Gate are gone too")
	}
}
