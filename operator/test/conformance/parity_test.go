// Package conformance holds Sluice to its promise: one verdict in the pull request, at
// admission and on every reconcile.
package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

// want is the outcome of every fixture, by file name. A fixture without one fails.
var want = map[string]gate.Outcome{
	"allowed":                gate.OutcomeAllow,
	"allowed-with-warning":   gate.OutcomeWarn,
	"broken-patch":           gate.OutcomeDeny,
	"bundle":                 gate.OutcomeAllow,
	"defaults-only":          gate.OutcomeDeny,
	"exempted":               gate.OutcomeAllow,
	"exempted-in-part":       gate.OutcomeDeny,
	"exempted-other-image":   gate.OutcomeDeny,
	"exempted-other-object":  gate.OutcomeDeny,
	"exempted-until-past":    gate.OutcomeDeny,
	"ignored":                gate.OutcomeAllow,
	"ignored-image":          gate.OutcomeDeny,
	"keyless":                gate.OutcomeAllow,
	"keyless-stranger":       gate.OutcomeDeny,
	"keyless-tag":            gate.OutcomeAllow,
	"latest":                 gate.OutcomeDeny,
	"look-alike":             gate.OutcomeDeny,
	"no-such-tag":            gate.OutcomeError,
	"not-an-image":           gate.OutcomeDeny,
	"persistent":             gate.OutcomeDeny,
	"persistent-with-backup": gate.OutcomeAllow,
	"pinned":                 gate.OutcomeAllow,
	"pinned-elsewhere":       gate.OutcomeDeny,
	"policy-bundle":          gate.OutcomeDeny,
	"policy-bundle-allowed":  gate.OutcomeWarn,
	"policy-bundle-unsigned": gate.OutcomeError,
	"privileged":             gate.OutcomeDeny,
	"probe-nowhere":          gate.OutcomeDeny,
	"promoted":               gate.OutcomeAllow,
	"promoted-elsewhere":     gate.OutcomeDeny,
	"promoted-failed":        gate.OutcomeDeny,
	"promoted-late":          gate.OutcomeDeny,
	"promoted-not":           gate.OutcomeDeny,
	"promoted-returned":      gate.OutcomeAllow,
	"registry-down":          gate.OutcomeError,
	"scan-failed":            gate.OutcomeDeny,
	"scan-passed":            gate.OutcomeAllow,
	"secret-literal":         gate.OutcomeDeny,
	"sidecar":                gate.OutcomeDeny,
	"static-allow":           gate.OutcomeAllow,
	"unmatched":              gate.OutcomeDeny,
	"unsigned":               gate.OutcomeDeny,
	"v1alpha1":               gate.OutcomeDeny,
	"v1alpha1-restored":      gate.OutcomeAllow,
	"v1alpha1-sidecar":       gate.OutcomeDeny,
}

const fixtures = "testdata/workloads"

// TestParity_TheThreeGatesGiveTheSameBytes runs the real thing at all three: the CLI; an
// API server that asks the operator's webhook and writes its verdict to the audit log;
// and, with the webhook out of the way, the operator's reconciler.
func TestParity_TheThreeGatesGiveTheSameBytes(t *testing.T) {
	s := newSuite(t)
	files, err := os.ReadDir(fixtures)
	if err != nil {
		t.Fatal(err)
	}
	pullRequest := map[string][]byte{}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".yaml")
		t.Run("pull request and admission agree on "+name, func(t *testing.T) {
			pullRequest[name] = s.check(t, name)
			if got, want := outcome(t, pullRequest[name]), want[name]; got != want {
				t.Fatalf("the verdict is %q and should be %q: %s", got, want, pullRequest[name])
			}
			if bytes.Contains(pullRequest[name], []byte("hunter2")) || name == "secret-literal" && !bytes.Contains(pullRequest[name], []byte("DB_PASSWORD is written out")) {
				t.Errorf("the verdict shows a password, or nothing of it: %s", pullRequest[name])
			}
			if got := s.admit(t, name); !bytes.Equal(got, pullRequest[name]) {
				t.Errorf("admission:    %s\npull request: %s", got, pullRequest[name])
			}
		})
	}
	t.Run("from a recording comes the same", func(t *testing.T) { s.checkOffline(t, pullRequest) })
	rules := s.rulesBeforeTheyAreStored(t)
	s.removeWebhook(t)
	s.rulesOnceStored(t, rules)
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".yaml")
		t.Run("the reconciler agrees on "+name, func(t *testing.T) {
			worst := gate.Worst(decode(t, pullRequest[name]))
			if got := s.reconcile(t, name); got.VerdictDigest != worst.Digest() {
				t.Errorf("status.gate has verdict %s, digest %s; the pull request has %s: %s", got.Verdict, got.VerdictDigest, worst.Digest(), worst.Canonical())
			}
		})
	}
}

// TestOperator_TellsOfItself reads what a cluster's probes and Prometheus read, and what
// the operator's own rights did not allow it.
func TestOperator_TellsOfItself(t *testing.T) {
	s := newSuite(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if body := get(t, s.stage.ManagerURL+path); body != "ok" {
			t.Errorf("%s answers %q", path, body)
		}
	}
	series := []string{
		`sluice_verdicts_total{point="admission",verdict="Allow"}`, `sluice_verdicts_total{point="reconcile",verdict="Allow"}`,
		`sluice_decision_seconds_bucket{point="admission",le="`, `sluice_registry_requests_total{code="200",operation="resolve"}`,
		`sluice_child_writes_total{kind="StatefulSet",operation="apply"}`, "sluice_status_writes_total", "sluice_exemptions_active 4\n", `leader_election_master_status{name="sluice.dev"} 1`,
	}
	missing := series
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		exposed := get(t, s.stage.MetricsURL)
		missing = slices.DeleteFunc(slices.Clone(series), func(name string) bool { return strings.Contains(exposed, name) })
		return len(missing) == 0, nil
	})
	if err != nil {
		t.Errorf("/metrics has no %v: %v", missing, err)
	}
	log, err := os.ReadFile(s.stage.Manager.Log())
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.Index(log, []byte("forbidden")); i >= 0 {
		t.Errorf("the operator lacks a right: %s", log[max(0, i-300):min(len(log), i+300)])
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// check is the verdicts of the pull request.
func (s *suite) check(t *testing.T, name string) []byte {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := []string{"check", "--no-cache", filepath.Join(fixtures, name+".yaml"), "--format=json", "--registry-mirror=" + stage.Registry + "=" + s.stage.RegistryAddress}
	for _, g := range s.gates {
		args = append(args, "--gate="+g)
	}
	code := cli.Main(t.Context(), args, nil, &stdout, &stderr)
	if wantCode := map[gate.Outcome]int{gate.OutcomeDeny: 1, gate.OutcomeError: 3}[want[name]]; code != wantCode {
		t.Fatalf("exit code is %d and should be %d: %s%s", code, wantCode, stderr.String(), stdout.String())
	}
	return bytes.TrimSpace(stdout.Bytes())
}

// checkOffline records the registry in one run over all fixtures, and wants the same bytes
// from the recording in another, which knows of no way to the registry.
func (s *suite) checkOffline(t *testing.T, pullRequest map[string][]byte) {
	t.Helper()
	args := []string{"check", "--format=json"}
	var want []gate.Verdict
	for _, name := range slices.Sorted(maps.Keys(pullRequest)) {
		if name == "registry-down" {
			continue // there is nothing to record
		}
		args = append(args, filepath.Join(fixtures, name+".yaml"))
		want = append(want, decode(t, pullRequest[name])...)
	}
	for _, g := range s.gates {
		args = append(args, "--gate="+g)
	}
	file := filepath.Join(t.TempDir(), "signatures.jsonl")
	for _, how := range [][]string{{"--record=" + file, "--registry-mirror=" + stage.Registry + "=" + s.stage.RegistryAddress}, {"--offline=" + file}} {
		var stdout, stderr bytes.Buffer
		cli.Main(t.Context(), append(slices.Clone(args), how...), nil, &stdout, &stderr)
		got := decode(t, stdout.Bytes())
		if len(got) != len(want) {
			t.Fatalf("with %s: %d verdicts, of %d: %s", how[0], len(got), len(want), stderr.String())
		}
		for i := range want {
			if !bytes.Equal(got[i].Canonical(), want[i].Canonical()) {
				t.Errorf("with %s: %s\npull request: %s", how[0], got[i].Canonical(), want[i].Canonical())
			}
		}
	}
}

// admit asks the API server to create the fixture, dry, and returns the verdicts that its
// audit log has from the webhook.
func (s *suite) admit(t *testing.T, name string) []byte {
	t.Helper()
	return s.admission(t, s.fixture(t, name), want[name].Blocks())
}

// admission is admit for any object; its webhook is the one that answers with verdicts.
func (s *suite) admission(t *testing.T, u *unstructured.Unstructured, blocked bool) []byte {
	t.Helper()
	name, namespace := u.GetName(), u.GetNamespace()
	err := s.client.Create(t.Context(), u.DeepCopy(), client.DryRunAll)
	if (err != nil) != blocked {
		t.Fatalf("the API server answers %v; blocked should be %t", err, blocked)
	}
	log, err := os.ReadFile(s.stage.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.Split(log, []byte("\n")) {
		var event struct {
			Verb        string
			ObjectRef   struct{ Name, Namespace string }
			Annotations map[string]string
		}
		if len(line) > 0 && json.Unmarshal(line, &event) != nil {
			continue
		}
		if event.Verb != "create" || event.ObjectRef.Namespace != namespace || event.ObjectRef.Name != name {
			continue
		}
		for _, webhook := range []string{"workloads.sluice.dev", "objects.sluice.dev"} {
			if verdicts, ok := event.Annotations[webhook+"/verdicts"]; ok {
				return []byte(verdicts)
			}
		}
	}
	t.Fatalf("the audit log has no creation of %s", name)
	return nil
}

// reconcile stores the fixture and returns what the operator says of it.
func (s *suite) reconcile(t *testing.T, name string) v1beta1.GateStatus {
	t.Helper()
	return s.reconciled(t, s.fixture(t, name))
}

// reconciled is reconcile for any Workload.
func (s *suite) reconciled(t *testing.T, u *unstructured.Unstructured) v1beta1.GateStatus {
	t.Helper()
	name := u.GetName()
	// The API server's own caches may still ask the webhook for a moment.
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		return s.client.Create(ctx, u.DeepCopy()) == nil, nil
	})
	if err != nil {
		t.Fatalf("create %s without the webhook: %v", name, err)
	}
	// Whatever version it is written in, it is judged, and read here, in the latest.
	u.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	w := &v1beta1.Workload{}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
			return false, err
		}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, w)
		return w.Status.Gate != nil && w.Status.ObservedGeneration == w.Generation, err
	})
	if err != nil {
		t.Fatalf("wait for the operator to judge %s: %v", name, err)
	}
	return *w.Status.Gate
}

func decode(t *testing.T, raw []byte) []gate.Verdict {
	t.Helper()
	var all []gate.Verdict
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return all
}

func outcome(t *testing.T, raw []byte) gate.Outcome {
	t.Helper()
	return gate.Worst(decode(t, raw)).Outcome
}
