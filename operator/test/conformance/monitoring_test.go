package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// rule is an alert as Prometheus tells of it.
type rule struct {
	Name, State, Health, LastError, Query string
}

// selected are the metrics that an expression reads.
var selected = regexp.MustCompile(`\b([a-z_]+)\{`)

// TestMonitoring_AlertsReadWhatTheOperatorExposes has a real Prometheus scrape the real
// operator and evaluate the component's rules: each metric is there, none fires while all
// is well, and one does when the operator is gone.
func TestMonitoring_AlertsReadWhatTheOperatorExposes(t *testing.T) {
	s := newSuite(t)
	dir := t.TempDir()
	alerts := s.writeRules(t, dir)
	tools, err := lab.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	target := strings.TrimSuffix(strings.TrimPrefix(s.stage.MetricsURL, "http://"), "/metrics")
	prometheus, err := testkit.StartPrometheus(t.Context(), filepath.Join(tools, "prometheus"), dir, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prometheus.Stop)
	s.await(t, "every rule is evaluated", func(context.Context) error {
		rules := rulesOf(t, prometheus.URL)
		if len(rules) != alerts {
			return fmt.Errorf("%d rules of %d", len(rules), alerts)
		}
		for _, r := range rules {
			if r.Health != "ok" || r.State != "inactive" {
				return fmt.Errorf("%s is %s and %s: %s", r.Name, r.Health, r.State, r.LastError)
			}
		}
		return nil
	})
	s.drift(t)
	for _, r := range rulesOf(t, prometheus.URL) {
		for _, m := range selected.FindAllStringSubmatch(r.Query, -1) {
			s.await(t, r.Name+" reads "+m[1], func(context.Context) error {
				if !hasSeries(t, prometheus.URL, m[1]) {
					return fmt.Errorf("the operator exposes no %s", m[1])
				}
				return nil
			})
		}
	}
	if err := s.stage.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	s.await(t, "the end of the operator is told", func(context.Context) error {
		var raised []string
		for _, r := range rulesOf(t, prometheus.URL) {
			if r.State != "inactive" {
				raised = append(raised, r.Name)
			}
		}
		if !slices.Contains(raised, "SluiceDown") || !slices.Contains(raised, "SluiceNotLeading") {
			return fmt.Errorf("raised: %v", raised)
		}
		return nil
	})
}

// writeRules writes the rules of the component where the Prometheus of the test reads them,
// for its job, and returns how many there are.
func (s *suite) writeRules(t *testing.T, dir string) int {
	t.Helper()
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	read, err := overlay.Read("", filepath.Join(root, "kustomize", "components", "service-monitor", "rules.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	spec := read[0].Unstructured.Object["spec"]
	raw, err := yaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "rules"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(raw), `job="sluice-metrics"`, `job="targets"`)
	if err := os.WriteFile(filepath.Join(dir, "rules", "sluice.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.Count(text, "alert: ")
}

// drift changes a child, so that the operator has fields to put back.
func (s *suite) drift(t *testing.T) {
	t.Helper()
	cache := s.objects(t, "../../../kustomize/base/fleet/cache.yaml")[0]
	s.await(t, "the sample fleet runs", func(ctx context.Context) error { return s.stands(ctx, cache, "Ready") })
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":7}}`))
	if err := s.client.Patch(t.Context(), child(cache), patch); err != nil {
		t.Fatal(err)
	}
}

func rulesOf(t *testing.T, prometheus string) []rule {
	t.Helper()
	var answer struct {
		Data struct {
			Groups []struct{ Rules []rule }
		}
	}
	if err := json.Unmarshal([]byte(get(t, prometheus+"/api/v1/rules")), &answer); err != nil {
		t.Fatal(err)
	}
	var out []rule
	for _, g := range answer.Data.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

func hasSeries(t *testing.T, prometheus, metric string) bool {
	t.Helper()
	var answer struct{ Data []any }
	query := url.Values{"match[]": {metric + `{job="targets"}`}}.Encode()
	if err := json.Unmarshal([]byte(get(t, prometheus+"/api/v1/series?"+query)), &answer); err != nil {
		t.Fatal(err)
	}
	return len(answer.Data) > 0
}
