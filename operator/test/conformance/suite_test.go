package conformance

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/strictjson"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

type suite struct {
	stage  *stage.Stage
	client client.Client
	gates  []string
}

func newSuite(t *testing.T, args ...string) *suite {
	t.Helper()
	s := &suite{}
	s.stage, s.client = up(t, stage.Options{
		Overlay: "kustomize/overlays/dev", ManagerArgs: args,
		AuditUsers: []string{"lab-admin"}, // as whom the tests write: the log then has the verdicts over pods too
	})
	s.prepare(t)
	return s
}

// up starts a cluster with an overlay and the operator that was built, until the test ends.
func up(t *testing.T, options stage.Options) (*stage.Stage, client.Client) {
	t.Helper()
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	options.Root, options.Manager, options.Log = root, filepath.Join(root, "bin", "manager"), testLog{t}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	st, err := stage.Up(ctx, options)
	if err != nil {
		t.Fatalf("start the lab (run `make build tools` first): %v", err)
	}
	t.Cleanup(func() {
		log, err := os.ReadFile(st.Manager.Log())
		if err != nil {
			t.Error(err)
		}
		readable(t, log)
		if t.Failed() {
			t.Logf("the operator's log ends with: %s", log[max(0, len(log)-4000):])
		}
		if err := st.Stop(); err != nil {
			t.Error(err)
		}
	})
	access, err := client.New(quiet(st.Cluster.Config()), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st, access
}

// readable fails on a line of the operator's log that what collects logs cannot read: one
// that is no JSON, or has a key twice. The last one of a replica that was killed may be cut.
func readable(t *testing.T, log []byte) {
	t.Helper()
	for line := range bytes.Lines(log) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		if err := strictjson.Check(bytes.TrimSpace(line), 0); err != nil {
			t.Errorf("line of the operator's log: %v: %s", err, line)
		}
	}
}

func (s *suite) prepare(t *testing.T) {
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
	s.pushPolicies(t)
	if err := s.stage.Cluster.Apply(t.Context(), append(s.objects(t, "testdata/gates.yaml"), root, attestor.DeepCopy())); err != nil {
		t.Fatal(err)
	}
	s.exempt(t)
	s.gates = []string{"testdata/gates.yaml", "testdata/exemptions.yaml", manifest(t, s.stage.SignerManifest()), manifest(t, root), manifest(t, attestor)}
}

// pushPolicies pushes the policies that a Gate names by their digest, and signs them in one of
// two repositories.
func (s *suite) pushPolicies(t *testing.T) {
	t.Helper()
	for _, repository := range []string{"policies/parity", "policies/unsigned"} {
		var stdout, stderr bytes.Buffer
		args := []string{"policy", "push", "testdata/policies", stage.Registry + "/" + repository + ":1", "--registry-mirror=" + stage.Registry + "=" + s.stage.RegistryAddress}
		if code := cli.Main(t.Context(), args, nil, &stdout, &stderr); code != cli.ExitPass {
			t.Fatalf("exit code %d: %s", code, stderr.String())
		}
		named := strings.TrimSpace(stdout.String())
		gates, err := os.ReadFile("testdata/gates.yaml")
		if err != nil || !bytes.Contains(gates, []byte("ref: "+named+"\n")) {
			t.Fatalf("%v: testdata/gates.yaml does not name %s", err, named)
		}
		if repository == "policies/unsigned" {
			continue
		}
		_, digest, _ := strings.Cut(named, "@")
		if err := s.stage.Key.SignBundle(s.stage.RegistryAddress+"/"+repository, digest); err != nil {
			t.Fatal(err)
		}
	}
}

// exempt applies the Exemptions. One that has expired is refused when it is created, so
// that it is given a later end first.
func (s *suite) exempt(t *testing.T) {
	t.Helper()
	for _, e := range s.objects(t, "testdata/exemptions.yaml") {
		first := e.DeepCopy()
		if err := unstructured.SetNestedField(first.Object, "2099-01-01T00:00:00Z", "spec", "expires"); err != nil {
			t.Fatal(err)
		}
		if err := s.stage.Cluster.Apply(t.Context(), []*unstructured.Unstructured{first}); err != nil {
			t.Fatal(err)
		}
		if err := s.stage.Cluster.Apply(t.Context(), []*unstructured.Unstructured{e}); err != nil {
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
	return key.AttestStatement(repository, digest, evidence.PredicateType, statement)
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

func (s *suite) removeWebhook(t *testing.T) {
	t.Helper()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	config.Name = "sluice"
	if err := s.client.Delete(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
