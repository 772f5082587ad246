package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-dev/sluice/operator/internal/metrics"
)

func there() bool { return true }

func filled() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	s := metrics.New(registry)
	s.Verdicts.WithLabelValues("admission", "Deny").Inc()
	s.ChildWrites.WithLabelValues("Deployment", "apply").Inc()
	s.Drift.WithLabelValues("Service", "healed").Add(2)
	s.DecisionSeconds.WithLabelValues("reconcile").Observe(.01)
	s.StatusWrites.Inc()
	s.Attested("e2e", "written", there)
	return registry
}

func TestNew_RegistersWhatCanBeScraped(t *testing.T) {
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(filled(), promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`sluice_verdicts_total{point="admission",verdict="Deny"} 1`,
		`sluice_child_writes_total{kind="Deployment",operation="apply"} 1`,
		`sluice_drift_fields_total{action="healed",kind="Service"} 2`,
		`sluice_decision_seconds_count{point="reconcile"} 1`,
		`sluice_status_writes_total 1`,
		`sluice_attestations_total{gate="e2e",result="written"} 1`,
	} {
		if !strings.Contains(answer.Body.String(), "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, answer.Body)
		}
	}
}

// A label with an object's name would grow with the fleet. Gates do not: there is one for an
// environment.
func TestNew_NamesNoObjects(t *testing.T) {
	families, err := filled().Gather()
	if err != nil || len(families) != 6 {
		t.Fatalf("%d metrics, %v", len(families), err)
	}
	allowed := map[string]bool{"point": true, "verdict": true, "kind": true, "operation": true, "action": true, "gate": true, "result": true}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if !allowed[l.GetName()] {
					t.Errorf("%s has label %s", f.GetName(), l.GetName())
				}
			}
		}
	}
}

func TestForget_TakesEverySeriesOfAGateAndNoOther(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := metrics.New(registry)
	for _, gate := range []string{"old", "e2e"} {
		for _, result := range []string{"written", "present", "failed"} {
			s.Attested(gate, result, there)
		}
	}
	s.Forget("old")
	s.Attested("old", "failed", func() bool { return false })
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "gate" {
					series[l.GetValue()]++
				}
			}
		}
	}
	if series["old"] != 0 || series["e2e"] != 3 {
		t.Errorf("series by Gate: %v", series)
	}
}
