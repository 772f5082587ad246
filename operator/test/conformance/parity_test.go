// Package conformance holds Sluice to its promise: one verdict in the pull request, at
// admission and on every reconcile.
package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
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
	"privileged":             gate.OutcomeDeny,
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

type suite struct {
	stage  *stage.Stage
	client client.Client
	gates  []string
}

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

func newSuite(t *testing.T, args ...string) *suite {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	st, err := stage.Up(ctx, stage.Options{
		Root: root, Overlay: "kustomize/overlays/dev", Manager: filepath.Join(root, "bin", "manager"), ManagerArgs: args, Log: testLog{t},
		AuditUsers: []string{"lab-admin"}, // as whom the tests write: the log then has the verdicts over pods too
	})
	if err != nil {
		t.Fatalf("start the lab (run `make build tools` first): %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, err := os.ReadFile(st.Manager.Log())
			t.Logf("the operator's log ends with (%v): %s", err, log[max(0, len(log)-4000):])
		}
		if err := st.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &suite{stage: st}
	if s.client, err = client.New(quiet(st.Cluster.Config()), client.Options{}); err != nil {
		t.Fatal(err)
	}
	s.prepare(ctx, t)
	return s
}

func (s *suite) prepare(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := s.stage.Push("shop/report:0.9.0"); err != nil {
		t.Fatal(err)
	}
	digest, err := s.stage.Push("shop/bundled:1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.stage.Key.SignBundle(s.stage.RegistryAddress+"/shop/bundled", digest); err != nil {
		t.Fatal(err)
	}
	latest, err := testkit.PushImage(s.stage.RegistryAddress+"/shop/cache:latest", "shop/cache:7.2.4")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.stage.Sign("shop/cache:latest", latest); err != nil {
		t.Fatal(err)
	}
	own, err := testkit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	attestor := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": "parity-attestor", "namespace": stage.OperatorNamespace},
		"stringData": map[string]any{"cosign.pub": own.PublicPEM},
	}}
	root := s.signWithoutKey(t, own)
	if err := s.stage.Cluster.Apply(ctx, append(s.objects(t, "testdata/gates.yaml"), root, attestor.DeepCopy())); err != nil {
		t.Fatal(err)
	}
	s.exempt(ctx, t)
	s.gates = []string{"testdata/gates.yaml", "testdata/exemptions.yaml", manifest(t, s.stage.SignerManifest()), manifest(t, root), manifest(t, attestor)}
}

// exempt applies the Exemptions. One that has expired is refused when it is created, so
// that it is given a later end first.
func (s *suite) exempt(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, e := range s.objects(t, "testdata/exemptions.yaml") {
		first := e.DeepCopy()
		if err := unstructured.SetNestedField(first.Object, "2099-01-01T00:00:00Z", "spec", "expires"); err != nil {
			t.Fatal(err)
		}
		if err := s.stage.Cluster.Apply(ctx, []*unstructured.Unstructured{first}); err != nil {
			t.Fatal(err)
		}
		if err := s.stage.Cluster.Apply(ctx, []*unstructured.Unstructured{e}); err != nil {
			t.Fatal(err)
		}
	}
}

// signWithoutKey pushes what a Sigstore of its own vouches for, and what the key attests,
// with evidence of the environment itself by a key of its own, and returns the ConfigMap with
// the trusted root.
func (s *suite) signWithoutKey(t *testing.T, own *testkit.Key) *unstructured.Unstructured {
	t.Helper()
	sigstore, err := testkit.NewSigstore()
	if err != nil {
		t.Fatal(err)
	}
	workflow := testkit.Identity{Subject: "https://git.example.com/shop/ledger/release.yml@refs/tags/v1", Issuer: "https://issuer.example.com"}
	stranger := testkit.Identity{Subject: "https://git.example.com/shop/ledger/test.yml@refs/heads/main", Issuer: "https://issuer.example.com"}
	for repository, sign := range map[string]func(repository, digest string) error{
		"keyless/ledger":   func(r, d string) error { return sigstore.SignBundle(workflow, r, d) },
		"keyless/older":    func(r, d string) error { return sigstore.SignTag(workflow, r, d) },
		"keyless/stranger": func(r, d string) error { return sigstore.SignBundle(stranger, r, d) },
		"scanned/passed": func(r, d string) error {
			return s.stage.Key.AttestBundle(r, d, "https://scans.example.com/v1", map[string]any{"result": "PASSED"})
		},
		"scanned/failed": func(r, d string) error {
			return s.stage.Key.AttestTag(r, d, "https://scans.example.com/v1", map[string]any{"result": "FAILED"})
		},
		"promoted/passed": func(r, d string) error {
			return summary(s.stage.Key, r, d, "e2e", evidence.Passed, time.Minute)
		},
		"promoted/failed": func(r, d string) error {
			return summary(s.stage.Key, r, d, "e2e", evidence.Failed, time.Minute)
		},
		"promoted/ci": func(r, d string) error {
			return summary(s.stage.Key, r, d, "ci", evidence.Passed, time.Minute)
		},
		"promoted/late": func(r, d string) error {
			return summary(s.stage.Key, r, d, "e2e", evidence.Passed, 25*time.Hour)
		},
		"promoted/returned": func(r, d string) error {
			return errors.Join(summary(s.stage.Key, r, d, "e2e", evidence.Passed, 25*time.Hour), summary(own, r, d, "parity", evidence.Passed, 24*time.Hour))
		},
		"promoted/none": func(_, _ string) error { return nil },
	} {
		digest, err := s.stage.Push(repository + ":1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		if err := sign(s.stage.RegistryAddress+"/"+repository, digest); err != nil {
			t.Fatal(err)
		}
	}
	root, err := sigstore.TrustedRootJSON()
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "sigstore-root", "namespace": stage.OperatorNamespace},
		"data":     map[string]any{"trusted_root.json": string(root)},
	}}
}

// summary attaches evidence of an environment, of some time ago.
func summary(key *testkit.Key, repository, digest, environment string, result evidence.Result, ago time.Duration) error {
	statement, err := evidence.Summary{
		Subjects: []string{digest}, Verifier: evidence.Verifier(environment), Time: time.Now().Add(-ago), Resource: repository, Result: result,
	}.Statement()
	if err != nil {
		return err
	}
	bundle, err := key.SignPayload("application/vnd.in-toto+json", statement)
	if err != nil {
		return err
	}
	return testkit.StoreBundle(repository, digest, bundle, evidence.PredicateType)
}

// manifest writes an object to a file.
func manifest(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	raw, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), u.GetName()+".json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (s *suite) objects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	read, err := overlay.Read("", file, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, o := range read {
		out = append(out, o.Unstructured)
	}
	return out
}

func (s *suite) fixture(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	return s.objects(t, filepath.Join(fixtures, name+".yaml"))[0]
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

func (s *suite) removeWebhook(t *testing.T) {
	t.Helper()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	config.Name = "sluice"
	if err := s.client.Delete(t.Context(), config); err != nil {
		t.Fatal(err)
	}
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

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
