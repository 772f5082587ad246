package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// command runs the command, and returns what it writes to standard output.
func command(t *testing.T, code int, says string, args ...string) string {
	t.Helper()
	stdout, _ := commandOutputs(t, code, says, args...)
	return stdout
}

// commandOutput is command with standard error too.
func commandOutput(t *testing.T, code int, says string, args ...string) string {
	t.Helper()
	stdout, stderr := commandOutputs(t, code, says, args...)
	return stdout + stderr
}

func commandOutputs(t *testing.T, code int, says string, args ...string) (out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if got := cli.Main(t.Context(), args, nil, &stdout, &stderr); got != code {
		t.Errorf("%v: exit code %d, want %d: %s%s", args, got, code, stdout.String(), stderr.String())
	}
	if all := stdout.String() + stderr.String(); !strings.Contains(all, says) {
		t.Errorf("%v: %q is not said: %s", args, says, all)
	}
	return stdout.String(), stderr.String()
}

func newKeys(t *testing.T) (key *testkit.Key, private, public string) {
	t.Helper()
	key, err := testkit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, file(t, "cosign.key", []byte(key.PrivatePEM)), file(t, "cosign.pub", []byte(key.PublicPEM))
}

// promotionGate demands evidence of e2e by a key.
func promotionGate(t *testing.T, key *testkit.Key, more string) string {
	t.Helper()
	return file(t, "gate.yaml", []byte("apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec:\n  environment: prod\n  unmatchedImages: Allow\n  requirePromotionFrom:\n    environment: e2e\n"+more+
		"    authorities:\n    - name: e2e-attestor\n      key:\n        inline: |\n          "+strings.ReplaceAll(strings.TrimSpace(key.PublicPEM), "\n", "\n          ")+"\n"))
}

func TestAttest_WhatItStoresIsWhatAGateAsksFor(t *testing.T) {
	key, private, public := newKeys(t)
	_, otherPrivate, otherPublic := newKeys(t)
	for kind, options := range map[string]testkit.RegistryOptions{
		"with the referrers API": {Referrers: true}, "without it": {},
	} {
		t.Run(kind, func(t *testing.T) {
			depot := testkit.NewRegistry(options)
			t.Cleanup(depot.Close)
			image := depot.Host() + "/shop/app:1"
			digest, err := testkit.PushImage(image, "app")
			if err != nil {
				t.Fatal(err)
			}
			gate := promotionGate(t, key, "    within: 1h\n    policyDigests: ["+digest+"]\n")
			command(t, cli.ExitDenied, "no evidence by any of the authorities", "history", image, "--key="+public)
			command(t, cli.ExitDenied, "e2e -> prod  Deny  image has no evidence", "history", image, "--gate="+gate)
			command(t, cli.ExitPass, "PASSED in environment e2e", "attest", image, "--environment=e2e", "--key="+otherPrivate, "--level=OF_A_STRANGER")
			command(t, cli.ExitDenied, "NOT VERIFIED", "history", image, "--gate="+gate)
			command(t, cli.ExitPass, "PASSED in environment e2e", "attest", image, "--environment=e2e", "--key="+private)
			command(t, cli.ExitDenied, "is not among the policyDigests", "history", image, "--gate="+gate)
			command(t, cli.ExitPass, "of 1 images", "attest", image, "--environment=e2e", "--key="+private, "--policy-digest="+digest, "--level=SLSA_BUILD_LEVEL_2")
			command(t, cli.ExitPass, "e2e -> prod  Allow", "history", image, "--gate="+gate)
			command(t, cli.ExitPass, "env_e2e[e2e] -->|Allow| env_prod[prod]", "history", image, "--gate="+gate, "--format=mermaid")
			command(t, cli.ExitPass, "signed by cosign", "history", image, "--key="+otherPublic)
			var chain struct {
				Evidence []struct {
					Environment, Result, PolicyDigest string
					Levels, SignedBy                  []string
				}
			}
			if err := json.Unmarshal([]byte(command(t, cli.ExitPass, digest, "history", image, "--gate="+gate, "--format=json")), &chain); err != nil {
				t.Fatal(err)
			}
			signed := 0
			for _, e := range chain.Evidence {
				if e.Environment != "e2e" || e.Result != "PASSED" {
					t.Errorf("%+v", e)
				}
				signed += len(e.SignedBy)
			}
			if len(chain.Evidence) != 3 || signed != 2 {
				t.Errorf("%+v", chain)
			}
		})
	}
}

func TestAttest_AnIndexIsAttestedWithItsImages(t *testing.T) {
	key, private, _ := newKeys(t)
	depot := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(depot.Close)
	index, err := testkit.Index("app")
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(depot.Host() + "/shop/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	gate := promotionGate(t, key, "")
	command(t, cli.ExitPass, "of 3 images", "attest", ref.Name(), "--environment=e2e", "--key="+private)
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range list.Manifests {
		command(t, cli.ExitPass, "e2e -> prod  Allow", "history", depot.Host()+"/shop/app@"+child.Digest.String(), "--gate="+gate)
	}
	if _, err := testkit.PushImage(depot.Host()+"/shop/app:2", "another"); err != nil {
		t.Fatal(err)
	}
	command(t, cli.ExitDenied, "no evidence", "history", depot.Host()+"/shop/app:2", "--gate="+gate)
}

func TestAttest_TakesFromTheVerdictWhatWasExemptedAndWhetherItBlocks(t *testing.T) {
	key, private, _ := newKeys(t)
	depot := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(depot.Close)
	image := depot.Host() + "/shop/app:1"
	digest, err := testkit.PushImage(image, "app")
	if err != nil {
		t.Fatal(err)
	}
	violations := "[]"
	verdict := func(outcome, digest string) string {
		return file(t, "verdict.json", fmt.Appendf(nil, `[{"verdict":%q,"policyDigest":%q,"images":[{"image":"x","digest":%q}],"violations":`+violations+`,
			"exemptions":[{"name":"hotfix","reason":"incident 4711","expires":"2099-01-01T00:00:00Z","policy":"signature","message":"not signed"}]}]`,
			outcome, testkit.DigestOf("rules"), digest))
	}
	gate := promotionGate(t, key, "    policyDigests: ["+testkit.DigestOf("rules")+"]\n")
	attest := []string{"attest", image, "--environment=e2e", "--key=" + private}
	command(t, cli.ExitUsage, "no verdict in it is about", append(attest, "--verdict="+verdict("Allow", testkit.DigestOf("other")))...)
	command(t, cli.ExitPass, "FAILED in environment e2e", append(attest, "--verdict="+verdict("Deny", digest))...)
	violations = `[{"policy":"signature","severity":"critical","message":"image has no signature"}]`
	command(t, cli.ExitPass, "FAILED in environment e2e", append(attest, "--verdict="+verdict("Warn", digest))...)  // mode Warn
	command(t, cli.ExitPass, "FAILED in environment e2e", append(attest, "--verdict="+verdict("Allow", digest))...) // mode Audit
	violations = "[]"
	command(t, cli.ExitDenied, "says that the image failed there", "history", image, "--gate="+gate)
	command(t, cli.ExitPass, "PASSED in environment e2e", append(attest, "--verdict="+verdict("Allow", digest))...)
	command(t, cli.ExitPass, "but for signature, by Exemption hotfix (incident 4711)", "history", image, "--gate="+gate)
}

func TestAttest_SaysWhatIsWrongWithItsFlags(t *testing.T) {
	_, private, public := newKeys(t)
	depot := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(depot.Close)
	image := depot.Host() + "/shop/app:1"
	command(t, cli.ExitUsage, "--environment", "attest", image, "--key="+private)
	command(t, cli.ExitUsage, "--key is required", "attest", image, "--environment=e2e")
	command(t, cli.ExitUsage, "public key", "attest", image, "--environment=e2e", "--key="+public)
	command(t, cli.ExitUsage, "no key in PEM", "attest", image, "--environment=e2e", "--key="+file(t, "x", []byte("x")))
	command(t, cli.ExitUsage, "--key is required, or", "history", image, "--gate="+file(t, "empty.yaml", nil))
	command(t, cli.ExitUndecided, "404", "attest", image, "--environment=e2e", "--key="+private)
	digest, err := testkit.PushImage(image, "app")
	if err != nil {
		t.Fatal(err)
	}
	command(t, cli.ExitUsage, "--policy-digest", "attest", image, "--environment=e2e", "--key="+private, "--policy-digest=latest")
	depot.Override(func(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }, testkit.Status(http.StatusForbidden))
	command(t, cli.ExitUndecided, "403", "attest", depot.Host()+"/shop/app@"+digest, "--environment=e2e", "--key="+private)
	depot.Override(nil, testkit.Status(http.StatusInternalServerError))
	command(t, cli.ExitUndecided, "500", "history", depot.Host()+"/shop/app@"+digest, "--key="+public)
	t.Setenv("COSIGN_PASSWORD", "wrong")
	command(t, cli.ExitUsage, "COSIGN_PASSWORD", "attest", image, "--environment=e2e", "--key="+private)
}

func TestHistory_EvidenceOfTheGatesOwnEnvironmentCountsByItsOwnAuthorities(t *testing.T) {
	key, private, _ := newKeys(t)
	own, ownPrivate, _ := newKeys(t)
	depot := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(depot.Close)
	image := depot.Host() + "/shop/app:1"
	if _, err := testkit.PushImage(image, "app"); err != nil {
		t.Fatal(err)
	}
	attests := "  attest:\n    key: {kms: hashivault://prod}\n    authorities:\n    - name: prod-attestor\n      key:\n        inline: |\n          " +
		strings.ReplaceAll(strings.TrimSpace(own.PublicPEM), "\n", "\n          ") + "\n"
	gate := promotionGate(t, key, "") // ends with what the authorities of e2e are
	raw, err := os.ReadFile(gate)
	if err != nil {
		t.Fatal(err)
	}
	gate = file(t, "gate.yaml", append(raw, attests...))
	command(t, cli.ExitPass, "PASSED in environment e2e", "attest", image, "--environment=e2e", "--key="+private)
	command(t, cli.ExitPass, "PASSED in environment prod", "attest", image, "--environment=prod", "--key="+ownPrivate)
	command(t, cli.ExitPass, "PASSED in environment dev", "attest", image, "--environment=dev", "--key="+ownPrivate)
	shown := command(t, cli.ExitPass, "e2e -> prod  Allow", "history", image, "--gate="+gate)
	for _, line := range strings.Split(shown, "\n") {
		if strings.Contains(line, "  prod  PASSED") != strings.Contains(line, "signed by prod-attestor") || strings.Contains(line, "  dev  PASSED") != strings.Contains(line, "NOT VERIFIED") {
			t.Errorf("%s", line)
		}
	}
	if !strings.Contains(shown, "prod-attestor") {
		t.Error(shown)
	}
}
