package conformance

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// TestCosign_WhatItSignsIsVerified signs with the cosign program itself, in its new format
// and in the old one, on registries with and without the referrers API.
func TestCosign_WhatItSignsIsVerified(t *testing.T) {
	tools, err := lab.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	keys, strangers := keyPair(t, tools), keyPair(t, tools)
	for name, c := range map[string]struct {
		options testkit.RegistryOptions
		bundle  string
	}{
		"a bundle, with the referrers API":     {testkit.RegistryOptions{Referrers: true}, "true"},
		"a bundle, without it":                 {testkit.RegistryOptions{}, "true"},
		"a .sig tag, with the referrers API":   {testkit.RegistryOptions{Referrers: true}, "false"},
		"a .sig tag, on a registry without it": {testkit.RegistryOptions{}, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := testkit.NewRegistry(c.options)
			t.Cleanup(registry.Close)
			digest, err := testkit.PushImage(registry.Host()+"/shop/app:1", "app")
			if err != nil {
				t.Fatal(err)
			}
			cosign(t, tools, keys, "sign", "--yes", "--key=cosign.key", "--tlog-upload=false", "--use-signing-config=false",
				"--new-bundle-format="+c.bundle, "--allow-http-registry", registry.Host()+"/shop/app@"+digest)
			for key, want := range map[string]int{keys: cli.ExitPass, strangers: cli.ExitDenied} {
				var stdout, stderr bytes.Buffer
				got := cli.Main(t.Context(), []string{"verify", registry.Host() + "/shop/app:1", "--key", filepath.Join(key, "cosign.pub")}, nil, &stdout, &stderr)
				if got != want {
					t.Errorf("exit code %d, want %d: %s%s", got, want, stdout.String(), stderr.String())
				}
			}
		})
	}
}

// cosignKeys has the cosign program among tools make a pair of keys in a folder, and reads the
// public one.
func cosignKeys(t *testing.T) (tools, keys string, public []byte) {
	t.Helper()
	tools, err := lab.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	keys = keyPair(t, tools)
	if public, err = os.ReadFile(filepath.Join(keys, "cosign.pub")); err != nil {
		t.Fatal(err)
	}
	return tools, keys, public
}

// TestCosign_WhatItAttestsIsAnAttestation attests with the cosign program, by the names that
// it has for types. Where a signature is asked for, none of it is one.
func TestCosign_WhatItAttestsIsAnAttestation(t *testing.T) {
	tools, keys, public := cosignKeys(t)
	for _, bundle := range []string{"true", "false"} {
		for kind, c := range map[string]struct{ predicateType, predicate string }{
			"slsaprovenance":          {"https://slsa.dev/provenance/v0.2", `{"builder":{"id":"x"},"buildType":"y","invocation":{}}`},
			"slsaprovenance1":         {"https://slsa.dev/provenance/v1", `{"buildDefinition":{"buildType":"x","externalParameters":{}},"runDetails":{"builder":{"id":"x"}}}`},
			"spdxjson":                {"https://spdx.dev/Document", `{"spdxVersion":"SPDX-2.3"}`},
			"cyclonedx":               {"https://cyclonedx.org/bom", `{"bomFormat":"CycloneDX"}`},
			"vuln":                    {"https://cosign.sigstore.dev/attestation/vuln/v1", `{"scanner":{"result":{}},"metadata":{"scanFinishedOn":"2026-01-01T00:00:00Z"}}`},
			"https://example.com/own": {"https://example.com/own", `{}`},
		} {
			t.Run("--new-bundle-format="+bundle+" --type="+kind, func(t *testing.T) {
				registry := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
				t.Cleanup(registry.Close)
				digest, err := testkit.PushImage(registry.Host()+"/shop/app:1", "app")
				if err != nil {
					t.Fatal(err)
				}
				folder := t.TempDir()
				write := func(name, text string) string {
					t.Helper()
					name = filepath.Join(folder, name)
					if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					return name
				}
				cosign(t, tools, keys, "attest", "--yes", "--key=cosign.key", "--tlog-upload=false", "--use-signing-config=false", "--type="+kind,
					"--predicate="+write("predicate.json", c.predicate), "--new-bundle-format="+bundle, "--allow-http-registry", registry.Host()+"/shop/app@"+digest)
				manifest := write("web.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {image: "+registry.Host()+"/shop/app:1}\n")
				for rule, want := range map[string]int{
					"require: none, attestations: [{predicateType: '" + c.predicateType + "'}]": cli.ExitPass,
					"require: none, attestations: [{predicateType: 'https://example.com'}]":     cli.ExitDenied,
					"require: any": cli.ExitDenied,
				} {
					gate := write("gate.yaml", "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec:\n  environment: prod\n  images: [{match: '"+registry.Host()+"/**', "+rule+
						", authorities: [{key: {inline: "+strconv.Quote(string(public))+"}}]}]\n")
					var stdout, stderr bytes.Buffer
					if got := cli.Main(t.Context(), []string{"check", "--no-cache", manifest, "--gate", gate}, nil, &stdout, &stderr); got != want {
						t.Errorf("%s: exit code %d, want %d: %s%s", rule, got, want, stdout.String(), stderr.String())
					}
				}
			})
		}
	}
}

// TestCosign_PoliciesThatItSignsAreJudgedBy has what sluice pushes signed by the command that
// it prints, in both formats.
func TestCosign_PoliciesThatItSignsAreJudgedBy(t *testing.T) {
	tools, keys, public := cosignKeys(t)
	for _, bundle := range []string{"true", "false"} {
		for title, referrers := range map[string]bool{"with the referrers API": true, "without it": false} {
			t.Run("--new-bundle-format="+bundle+" "+title, func(t *testing.T) {
				registry := testkit.NewRegistry(testkit.RegistryOptions{Referrers: referrers})
				t.Cleanup(registry.Close)
				var stdout, stderr bytes.Buffer
				if code := cli.Main(t.Context(), []string{"policy", "push", "testdata/policies", registry.Host() + "/policies/prod:1"}, nil, &stdout, &stderr); code != cli.ExitPass {
					t.Fatalf("exit code %d: %s", code, stderr.String())
				}
				ref := strings.TrimSpace(stdout.String())
				command := "cosign sign --key cosign.key " + ref
				if !strings.Contains(stderr.String(), command) {
					t.Fatalf("it does not print %q: %s", command, stderr.String())
				}
				file := filepath.Join(t.TempDir(), "all.yaml")
				manifest := "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {image: r.example.com/web}\n---\n" +
					"apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec:\n  environment: prod\n  unmatchedImages: Allow\n  policies:\n  - oci:\n      ref: " + ref +
					"\n      authorities: [{key: {inline: " + strconv.Quote(string(public)) + "}}]\n"
				if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
					t.Fatal(err)
				}
				check := func(want int, says string) {
					t.Helper()
					var stdout, stderr bytes.Buffer
					if got := cli.Main(t.Context(), []string{"check", "--no-cache", file}, nil, &stdout, &stderr); got != want || !strings.Contains(stdout.String(), says) {
						t.Errorf("exit code %d, want %d and %q: %s%s", got, want, says, stdout.String(), stderr.String())
					}
				}
				check(cli.ExitUndecided, "it has no signature")
				cosign(t, tools, keys, append(strings.Fields(command)[1:], "--yes", "--tlog-upload=false", "--use-signing-config=false",
					"--new-bundle-format="+bundle, "--allow-http-registry")...)
				check(cli.ExitDenied, "is in tier")
			})
		}
	}
}

// keyPair makes cosign.key and cosign.pub in a folder of their own.
func keyPair(t *testing.T, tools string) string {
	t.Helper()
	folder := t.TempDir()
	cosign(t, tools, folder, "generate-key-pair")
	return folder
}

func cosign(t *testing.T, tools, folder string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(tools, "cosign"), args...)
	c.Dir = folder
	c.Env = append(os.Environ(), "COSIGN_PASSWORD=", "HOME="+folder)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("cosign %v: %v: %s", args, err, out)
	}
}

// TestCosign_EvidenceByAnIdentity has cosign verify what sluice attests with an identity; and
// sign with the services that the tests have in place of the real ones, for sluice to verify:
// what they answer is what cosign expects of those.
func TestCosign_EvidenceByAnIdentity(t *testing.T) {
	tools, err := lab.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	const issuer, subject = "https://accounts.example.com", "release@example.com"
	sigstore, err := testkit.NewSigstore()
	if err != nil {
		t.Fatal(err)
	}
	services := testkit.NewSigstoreServer(sigstore)
	t.Cleanup(services.Close)
	depot := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(depot.Close)
	image := depot.Host() + "/shop/app"
	digest, err := testkit.PushImage(image+":1", "app")
	if err != nil {
		t.Fatal(err)
	}
	root, err := sigstore.TrustedRootJSON()
	if err != nil {
		t.Fatal(err)
	}
	token, err := services.Token(issuer, subject, "sigstore")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, content := range map[string][]byte{"root.json": root, "token": []byte(token)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trusted := "--trusted-root=" + filepath.Join(folder, "root.json")
	sluice := func(args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if got := cli.Main(t.Context(), args, nil, &stdout, &stderr); got != cli.ExitPass {
			t.Fatalf("exit code %d: %s%s", got, stdout.String(), stderr.String())
		}
	}
	sluice("attest", image+"@"+digest, "--environment=e2e", "--identity-token="+filepath.Join(folder, "token"), "--fulcio-url="+services.Server.URL, "--rekor-url="+services.Server.URL, trusted)
	cosign(t, tools, folder, "verify-attestation", "--type="+evidence.PredicateType, "--new-bundle-format", "--allow-http-registry", trusted,
		"--certificate-identity="+subject, "--certificate-oidc-issuer="+issuer, image+"@"+digest)
	cosign(t, tools, folder, "sign", "--yes", "--identity-token=token", "--use-signing-config=false", "--fulcio-url="+services.Server.URL, "--rekor-url="+services.Server.URL,
		"--new-bundle-format", "--allow-http-registry", trusted, image+"@"+digest)
	sluice("verify", image+":1", trusted, "--certificate-identity="+subject, "--certificate-oidc-issuer="+issuer)
}
