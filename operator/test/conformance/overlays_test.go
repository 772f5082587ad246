package conformance

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// fleet serves the signed images of the sample fleet, and returns the registry and a file
// with the key that signed them.
func fleet(t *testing.T) (registry *testkit.Registry, signer string) {
	t.Helper()
	registry = testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(registry.Close)
	key, err := testkit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"orders-db:15.3.0", "cache:7.2.4", "backup:1.2.0"} {
		digest, err := testkit.PushImage(registry.Host()+"/shop/"+image, "shop/"+image)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(image, ":")
		if err := key.SignTag(registry.Host()+"/shop/"+name, digest); err != nil {
			t.Fatal(err)
		}
	}
	signer = filepath.Join(t.TempDir(), "signer.yaml")
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": stage.SignerSecret, "namespace": stage.OperatorNamespace},
		"stringData": map[string]any{"cosign.pub": key.PublicPEM},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(signer, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	return registry, signer
}

// TestReadme_ItsWorkloadPassesItsGate takes the two objects of the README as a reader
// would who applies both.
func TestReadme_ItsWorkloadPassesItsGate(t *testing.T) {
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var objects []string
	for _, block := range strings.Split(string(readme), "```yaml\n")[1:] {
		object, _, _ := strings.Cut(block, "```")
		objects = append(objects, object)
	}
	registry, signer := fleet(t)
	objects = append(objects, "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {sluice.dev/environment: prod}}\n")
	var stdout, stderr bytes.Buffer
	code := cli.Main(t.Context(), []string{
		"check", "-", "--gate=" + signer, "--format=json", "--registry-mirror=" + stage.Registry + "=" + registry.Host(),
	}, strings.NewReader(strings.Join(objects, "---\n")), &stdout, &stderr)
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, stderr.String(), stdout.String())
	}
	verdicts := decode(t, stdout.Bytes())
	if len(verdicts) != 1 || verdicts[0].Outcome != gate.OutcomeAllow || len(verdicts[0].Images) != 1 {
		t.Errorf("verdicts: %s", stdout.String())
	}
}

// TestOverlays_PassTheirOwnGate checks each overlay as a pull request to it would be.
func TestOverlays_PassTheirOwnGate(t *testing.T) {
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	registry, signer := fleet(t)
	for _, environment := range []string{"dev", "ci", "e2e", "prod"} {
		t.Run(environment, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := cli.Main(t.Context(), []string{
				"check", "--no-cache", filepath.Join(root, "kustomize", "overlays", environment), "--gate=" + signer, "--format=json",
				"--registry-mirror=" + stage.Registry + "=" + registry.Host(),
			}, nil, &stdout, &stderr)
			if code != 0 {
				t.Fatalf("exit code %d: %s%s", code, stderr.String(), stdout.String())
			}
			verdicts := decode(t, stdout.Bytes())
			if len(verdicts) != 2 {
				t.Fatalf("%d verdicts; the fleet has two Workloads", len(verdicts))
			}
			for _, v := range verdicts {
				if v.Outcome != gate.OutcomeAllow || v.Gate != environment || len(v.Warnings) != 0 {
					t.Errorf("verdict: %s", v.Canonical())
				}
			}
		})
	}
}

// TestBase_PassesThePolicies holds the operator's own Deployment against what it asks of
// others. The labels of gitops are those of the children of Workloads.
func TestBase_PassesThePolicies(t *testing.T) {
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := cli.Main(t.Context(), []string{"check", filepath.Join(root, "kustomize", "base"), "--gate=testdata/platform-gate.yaml", "--format=json"}, nil, &stdout, &stderr)
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, stderr.String(), stdout.String())
	}
	verdicts := decode(t, stdout.Bytes())
	if len(verdicts) != 1 || verdicts[0].Outcome != gate.OutcomeAllow || len(verdicts[0].Warnings) != 0 {
		t.Errorf("verdicts: %s", stdout.String())
	}
}

// TestOverlays_PinTheSameThings is what `make overlays` asks: from ci on, what is tested is
// what runs.
func TestOverlays_PinTheSameThings(t *testing.T) {
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := cli.Main(t.Context(), []string{"lint", "overlays", filepath.Join(root, "kustomize", "overlays"), "--expect=spec.storage.retain"}, nil, &stdout, &stderr)
	if code != 0 || !strings.Contains(stdout.String()+stderr.String(), "0 errors, 0 warnings") {
		t.Errorf("exit code %d: %s%s", code, stderr.String(), stdout.String())
	}
}

func TestComponents_CertManagerReplacesTheOwnCertificates(t *testing.T) {
	read, err := overlay.Read("", "testdata/cert-manager", nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, o := range read {
		found[o.GetKind()] = true
		switch o.GetKind() {
		case "CustomResourceDefinition":
			if _, converts, _ := unstructured.NestedMap(o.Object, "spec", "conversion", "webhook"); converts && o.GetAnnotations()["cert-manager.io/inject-ca-from"] == "" {
				t.Errorf("cert-manager is not told to inject its authority into %s", o.GetName())
			}
		case "ValidatingWebhookConfiguration":
			if o.GetAnnotations()["cert-manager.io/inject-ca-from"] == "" {
				t.Error("cert-manager is not told to inject its authority")
			}
		case "Deployment":
			containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatal(err)
			}
			args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
			if !slices.Contains(args, "--webhook-certificate-dir=/certificates") {
				t.Errorf("args are %v", args)
			}
		}
	}
	if !found["Certificate"] || !found["Issuer"] {
		t.Errorf("kinds: %v", found)
	}
}
