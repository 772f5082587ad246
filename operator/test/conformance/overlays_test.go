package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/scaffold"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// environments in the order in which a digest goes through them.
var environments = scaffold.Environments

// served is the sample fleet in a registry, with the keys of who vouches for it.
type served struct {
	*stage.Fleet
	attestors map[string]*testkit.Key
	// keys is a folder with the Secrets that the overlays' Gates name, the public halves.
	keys string
}

// fleetKeys are the keys that the overlays' Gates name, by the Secret that they are in. To
// make one takes a second, so that all tests have the same.
var fleetKeys = sync.OnceValues(func() (map[string]*testkit.Key, error) {
	keys := map[string]*testkit.Key{stage.SignerSecret: nil}
	for _, environment := range environments {
		keys[stage.AttestorSecret(environment)] = nil
	}
	for name := range keys {
		key, err := testkit.NewKey()
		if err != nil {
			return nil, err
		}
		keys[name] = key
	}
	return keys, nil
})

// fleet serves the signed images of the sample fleet. No environment has attested them.
func fleet(t *testing.T) served {
	t.Helper()
	registry := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(registry.Close)
	keys, err := fleetKeys()
	if err != nil {
		t.Fatal(err)
	}
	f := served{attestors: map[string]*testkit.Key{}, keys: t.TempDir()}
	for name, key := range keys {
		content, err := stage.KeyManifest(name, key).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.file(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, environment := range environments {
		f.attestors[environment] = keys[stage.AttestorSecret(environment)]
	}
	if f.Fleet, err = stage.PushFleet(registry.Host(), keys[stage.SignerSecret]); err != nil {
		t.Fatal(err)
	}
	return f
}

// file is where a Secret of the folder is.
func (f served) file(secret string) string { return filepath.Join(f.keys, secret+".json") }

// without takes a Secret out of the folder.
func (f served) without(t *testing.T, secret string) {
	t.Helper()
	if err := os.Remove(f.file(secret)); err != nil {
		t.Fatal(err)
	}
}

// passed signs that the fleet passed an environment some time ago.
func (f served) passed(t *testing.T, environment string, ago time.Duration) {
	t.Helper()
	if err := f.Attest(f.attestors[environment], environment, time.Now().Add(-ago)); err != nil {
		t.Fatal(err)
	}
}

// check is what `sluice check` says of both Workloads of an overlay, by the keys of the folder.
func (f served) check(t *testing.T, environment string, want int) []gate.Verdict {
	t.Helper()
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := cli.Main(t.Context(), []string{
		"check", "--no-cache", filepath.Join(root, "kustomize", "overlays", environment), "--gate=" + f.keys, "--format=json",
		"--registry-mirror=" + stage.Registry + "=" + f.Registry,
	}, nil, &stdout, &stderr)
	verdicts := decode(t, stdout.Bytes())
	if len(verdicts) != 2 {
		t.Fatalf("%d verdicts, exit code %d: the fleet has two Workloads: %s", len(verdicts), code, stderr.String())
	}
	if code != want {
		t.Errorf("overlay %s: exit code %d, want %d", environment, code, want)
	}
	return verdicts
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
	f := fleet(t)
	objects = append(objects, "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {sluice.dev/environment: prod}}\n")
	var stdout, stderr bytes.Buffer
	code := cli.Main(t.Context(), []string{
		"check", "-", "--gate=" + f.keys, "--format=json", "--registry-mirror=" + stage.Registry + "=" + f.Registry,
	}, strings.NewReader(strings.Join(objects, "---\n")), &stdout, &stderr)
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, stderr.String(), stdout.String())
	}
	verdicts := decode(t, stdout.Bytes())
	if len(verdicts) != 1 || verdicts[0].Outcome != gate.OutcomeAllow || len(verdicts[0].Images) != 1 {
		t.Errorf("verdicts: %s", stdout.String())
	}
}

// TestOverlays_PassTheirOwnGateOnceTheOneBeforeAttested checks each overlay as a pull request
// to it would be, before the images have evidence of the environment before, and after.
func TestOverlays_PassTheirOwnGateOnceTheOneBeforeAttested(t *testing.T) {
	f := fleet(t)
	before := ""
	for _, environment := range environments {
		if before != "" {
			f.denied(t, environment, "image has no evidence that it passed environment "+before)
			f.passed(t, before, time.Hour)
		}
		f.allowed(t, environment, before)
		before = environment
	}
}

// TestOverlays_OnlyTheKeyOfTheEnvironmentBeforeVouches has the images attested by every
// environment that is not asked, and for the one that is asked by who has no say in it.
func TestOverlays_OnlyTheKeyOfTheEnvironmentBeforeVouches(t *testing.T) {
	f := fleet(t)
	f.passed(t, "dev", time.Hour)
	f.passed(t, "ci", time.Hour)
	f.passed(t, "prod", time.Hour)
	f.denied(t, "prod", "image has no evidence that it passed environment e2e")
	if err := f.Attest(f.attestors["e2e"], "ci", time.Now()); err != nil {
		t.Fatal(err)
	}
	f.denied(t, "prod", "evidence is of environment ci, and not of environment e2e")
	if err := f.Attest(f.attestors["ci"], "e2e", time.Now()); err != nil {
		t.Fatal(err)
	}
	f.denied(t, "prod", "signed by nobody that spec.requirePromotionFrom.authorities of gate prod names")
	f.passed(t, "e2e", time.Hour)
	f.allowed(t, "prod", "e2e")
}

// TestOverlays_EachAttestsForTheNext holds the two ends of a step together: what an operator
// signs with in one cluster is what the Gate of the next believes, and nobody else there does.
func TestOverlays_EachAttestsForTheNext(t *testing.T) {
	before := ""
	for _, environment := range environments {
		g := gateOf(t, environment)
		if g.Spec.Environment != environment || g.Spec.Attest == nil || g.Spec.Attest.Key.Secret == nil {
			t.Fatalf("Gate of %s is of environment %q and attests by %+v", environment, g.Spec.Environment, g.Spec.Attest)
		}
		if own := attestorKey(environment, "cosign.key"); *g.Spec.Attest.Key.Secret != own {
			t.Errorf("Gate of %s signs with %+v and not %+v", environment, *g.Spec.Attest.Key.Secret, own)
		}
		if demand := g.Spec.RequirePromotionFrom; before == "" {
			if demand != nil {
				t.Errorf("Gate of %s, the first, demands evidence of %s", environment, demand.Environment)
			}
		} else if demand == nil || demand.Environment != before || len(demand.Authorities) != 1 || !isHalfOf(demand.Authorities[0], before) {
			t.Errorf("Gate of %s demands %+v, want evidence of %s by its key", environment, demand, before)
		}
		for _, authority := range g.Spec.Attest.Authorities {
			if !isHalfOf(authority, environment) {
				t.Errorf("Gate of %s believes authority %s of its own environment", environment, authority.Name)
			}
		}
		before = environment
	}
}

// gateOf is the Gate of an overlay.
func gateOf(t *testing.T, environment string) *v1beta1.Gate {
	t.Helper()
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := overlay.Read("", filepath.Join(root, "kustomize", "overlays", environment), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() != v1beta1.GateKind {
			continue
		}
		g := &v1beta1.Gate{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, g); err != nil {
			t.Fatal(err)
		}
		return g
	}
	t.Fatalf("overlay %s has no Gate", environment)
	return nil
}

// isHalfOf says whether an authority is the public half of an environment's key.
func isHalfOf(a v1beta1.Authority, environment string) bool {
	return a.Key != nil && a.Key.Secret != nil && *a.Key.Secret == attestorKey(environment, "cosign.pub")
}

// attestorKey names a half of an environment's key.
func attestorKey(environment, half string) v1beta1.SecretKeyRef {
	at := v1beta1.NamespacedName{Name: stage.AttestorSecret(environment), Namespace: stage.OperatorNamespace}
	return v1beta1.SecretKeyRef{NamespacedName: at, Key: half}
}

// TestOverlays_WhatRanInProdMayComeBack: proof of e2e ages, and prod's own makes up for that.
func TestOverlays_WhatRanInProdMayComeBack(t *testing.T) {
	const old = 721 * time.Hour // within is 720h
	f := fleet(t)
	f.passed(t, "e2e", old)
	f.denied(t, "prod", "is older than 720h0m0s")
	f.passed(t, "prod", old)
	f.allowed(t, "prod", "e2e")
}

// TestOverlays_AKeyThatNobodyBroughtIsNoDenial: what README has a user bring is what it takes.
func TestOverlays_AKeyThatNobodyBroughtIsNoDenial(t *testing.T) {
	f := fleet(t)
	f.passed(t, "e2e", time.Hour)
	f.without(t, stage.AttestorSecret("dev"))
	f.without(t, stage.AttestorSecret("ci"))
	f.without(t, stage.AttestorSecret("prod")) // is asked of what is older than within alone
	f.allowed(t, "prod", "e2e")
	f.without(t, stage.AttestorSecret("e2e"))
	for _, v := range f.check(t, "prod", cli.ExitUndecided) {
		if v.Outcome != gate.OutcomeError || !says(v, "e2e-attestor") {
			t.Errorf("verdict: %s", v.Canonical())
		}
	}
}

// allowed wants both Workloads let through without a warning, every image by evidence of the
// environment before: "" where there is none.
func (f served) allowed(t *testing.T, environment, before string) {
	t.Helper()
	for _, v := range f.check(t, environment, cli.ExitPass) {
		if v.Outcome != gate.OutcomeAllow || v.Gate != environment || len(v.Warnings) != 0 {
			t.Errorf("overlay %s: verdict: %s", environment, v.Canonical())
		}
		for _, image := range v.Images {
			if image.PromotedFrom != before {
				t.Errorf("overlay %s: %s is promoted from %q and not %q", environment, image.Image, image.PromotedFrom, before)
			}
		}
	}
}

// denied wants both Workloads denied for the lack of evidence, and for nothing else.
func (f served) denied(t *testing.T, environment, why string) {
	t.Helper()
	for _, v := range f.check(t, environment, cli.ExitDenied) {
		others := slices.ContainsFunc(v.Violations, func(f gate.Finding) bool { return f.Policy != "promotion" })
		if v.Outcome != gate.OutcomeDeny || others || !says(v, why) {
			t.Errorf("overlay %s: verdict: %s", environment, v.Canonical())
		}
	}
}

// says looks for a text in every violation, of which there has to be one.
func says(v gate.Verdict, why string) bool {
	return len(v.Violations) > 0 && !slices.ContainsFunc(v.Violations, func(f gate.Finding) bool { return !strings.Contains(f.Message, why) })
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

// TestOverlays_AFleetOfInitIsTheSameChain wants what sluice init --attestors writes to
// demand and to sign what our own overlays do; only where a public key is differs.
func TestOverlays_AFleetOfInitIsTheSameChain(t *testing.T) {
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	made, _ := initialised(t, "orders")
	held := 0
	for _, o := range made {
		if o.GetKind() != "Gate" {
			continue
		}
		environment, _, err := unstructured.NestedString(o.Object, "spec", "environment")
		if err != nil {
			t.Fatal(err)
		}
		own, err := stage.Objects(root, filepath.Join("kustomize", "overlays", environment, "gate.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		got, want := chained(t, o.Object), chained(t, own[0].Object)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: sluice init writes %v, and our own overlay has %v", environment, got, want)
		}
		held++
	}
	if held != len(environments) {
		t.Errorf("%d Gates were looked at", held)
	}
}

// chained is what a Gate demands of the environment before and signs, without public keys.
func chained(t *testing.T, gate map[string]any) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, name := range []string{"requirePromotionFrom", "attest"} {
		part, found, err := unstructured.NestedMap(gate, "spec", name)
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			continue
		}
		authorities, _, err := unstructured.NestedSlice(part, "authorities")
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range authorities {
			delete(a.(map[string]any), "key")
		}
		part["authorities"] = authorities
		out[name] = part
	}
	return out
}
