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
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/limits"
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
	s.await(t, "what is stored and denied is told", func(ctx context.Context) error {
		// Each change has the Workloads of the namespace judged again, and the counter count on.
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"sluice.dev/environment":"t-%d"}}}`, time.Now().UnixNano()))
		if err := s.client.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, patch); err != nil {
			return err
		}
		return raises(t, prometheus.URL, "SluiceDeniesWhatIsStored")
	})
	if err := s.stage.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	s.await(t, "the end of the operator is told", func(context.Context) error {
		return raises(t, prometheus.URL, "SluiceDown", "SluiceNotLeading")
	})
}

// raises says which of the alerts are not raised, or about to be.
func raises(t *testing.T, prometheus string, alerts ...string) error {
	t.Helper()
	var raised []string
	for _, r := range rulesOf(t, prometheus) {
		if r.State != "inactive" {
			raised = append(raised, r.Name)
		}
	}
	for _, alert := range alerts {
		if !slices.Contains(raised, alert) {
			return fmt.Errorf("raised: %v, and not %s", raised, alert)
		}
	}
	return nil
}

// TestMonitoring_OneQuarrelIsTold holds the alert about quarrels to how often the operator
// puts one field back.
func TestMonitoring_OneQuarrelIsTold(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "kustomize", "components", "service-monitor", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`sluice_drift_fields_total.*\[1h\]\)\) > (\d+)\n`).FindSubmatch(raw)
	if found == nil {
		t.Fatal("no rule counts the fields of an hour")
	}
	threshold, err := strconv.Atoi(string(found[1]))
	if perHour := int(time.Hour / limits.HealPause); err != nil || threshold >= perHour {
		t.Errorf("the alert waits for more than %d fields, and one that is changed again and again is put back %d times in an hour (%v)", threshold, perHour, err)
	}
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
