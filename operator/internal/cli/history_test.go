package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// fleetOf is a folder with an overlay for each environment, all with the same Namespace, as
// those of sluice init have; each but the first demands evidence of the one before it.
func fleetOf(t *testing.T, environments []string, keys map[string]*testkit.Key) string {
	t.Helper()
	dir := t.TempDir()
	for i, e := range environments {
		gate := "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: " + e + "}\nspec:\n  environment: " + e + "\n  unmatchedImages: Allow\n"
		if i > 0 {
			before := environments[i-1]
			gate += "  requirePromotionFrom:\n    environment: " + before + "\n    authorities:\n    - name: " + before + "-attestor\n      key:\n        inline: |\n          " +
				strings.ReplaceAll(strings.TrimSpace(keys[before].PublicPEM), "\n", "\n          ") + "\n"
		}
		for name, content := range map[string]string{
			"kustomization.yaml": "resources: [gate.yaml, namespace.yaml]\n", "gate.yaml": gate,
			"namespace.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {sluice.dev/environment: " + e + "}}\n",
		} {
			at := filepath.Join(dir, e, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func TestHistory_OfAFleetIsTheWholeChain(t *testing.T) {
	keys, private := map[string]*testkit.Key{}, map[string]string{}
	for _, e := range []string{"dev", "ci"} {
		keys[e], private[e], _ = newKeys(t)
	}
	depot := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(depot.Close)
	image := depot.Host() + "/shop/app:1"
	if _, err := testkit.PushImage(image, "app"); err != nil {
		t.Fatal(err)
	}
	fleet := fleetOf(t, []string{"dev", "ci", "e2e"}, keys)
	gates := []string{"--gate=" + fleet + "/dev", "--gate=" + fleet + "/ci", "--gate=" + fleet + "/e2e", "--gate=" + fleet + "/ci/gate.yaml"}
	of := func(more ...string) []string { return append(append([]string{"history", image}, gates...), more...) }

	command(t, cli.ExitPass, "PASSED", "attest", image, "--environment=dev", "--key="+private["dev"])
	shown := command(t, cli.ExitDenied, "ci -> e2e  Deny  image has no evidence that it passed environment ci", of()...)
	if strings.Count(shown, "dev -> ci  Allow") != 1 {
		t.Errorf("the link from dev to ci is to be there once: %s", shown)
	}
	command(t, cli.ExitPass, "PASSED", "attest", image, "--environment=ci", "--key="+private["ci"])
	command(t, cli.ExitPass, "ci -> e2e  Allow", of()...)
	command(t, cli.ExitPass, "env_dev[dev] -->|Allow| env_ci[ci]", of("--format=mermaid")...)
}

// What an overlay runs is nothing to a history, and may be in several.
func TestHistory_LooksAtGatesAndNotAtWorkloads(t *testing.T) {
	keys, private := map[string]*testkit.Key{}, map[string]string{}
	keys["dev"], private["dev"], _ = newKeys(t)
	depot := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(depot.Close)
	image := depot.Host() + "/shop/app:1"
	if _, err := testkit.PushImage(image, "app"); err != nil {
		t.Fatal(err)
	}
	fleet := fleetOf(t, []string{"dev", "ci"}, keys)
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(fleet, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []string{"dev", "ci"} {
		write(e+"/web.yaml", "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {image: app:1, version: 1.0.0-"+e+"}\n")
	}
	write("dev/kustomization.yaml", "resources: [web.yaml]\n")
	write("ci/kustomization.yaml", "resources: [gate.yaml, namespace.yaml, web.yaml]\n")
	command(t, cli.ExitPass, "PASSED", "attest", image, "--environment=dev", "--key="+private["dev"])
	command(t, cli.ExitPass, "dev -> ci  Allow", "history", image, "--gate="+fleet+"/dev", "--gate="+fleet+"/ci")
}

// Two clusters can have the same Gate and each its own key, in a ConfigMap beside it.
func TestHistory_AsksTheSameGateWithTheKeysOfEachCluster(t *testing.T) {
	fleet := t.TempDir()
	private := map[string]string{}
	write := func(name, content string) {
		t.Helper()
		at := filepath.Join(fleet, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var gates []string
	for _, cluster := range []string{"east", "west"} {
		key, file, _ := newKeys(t)
		private[cluster] = file
		write(cluster+"/kustomization.yaml", "resources: [all.yaml]\n")
		write(cluster+"/all.yaml", "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec:\n  environment: prod\n  unmatchedImages: Allow\n  requirePromotionFrom:\n    environment: e2e\n"+
			"    authorities: [{name: e2e-attestor, key: {secret: {name: keys, namespace: sluice-system, key: cosign.pub}}}]\n---\n"+
			"apiVersion: v1\nkind: Secret\nmetadata: {name: keys, namespace: sluice-system}\nstringData:\n  cosign.pub: |\n    "+
			strings.ReplaceAll(strings.TrimSpace(key.PublicPEM), "\n", "\n    ")+"\n")
		gates = append(gates, "--gate="+filepath.Join(fleet, cluster))
	}
	depot := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(depot.Close)
	image := depot.Host() + "/shop/app:1"
	if _, err := testkit.PushImage(image, "app"); err != nil {
		t.Fatal(err)
	}
	command(t, cli.ExitPass, "PASSED", "attest", image, "--environment=e2e", "--key="+private["east"])
	shown := command(t, cli.ExitDenied, "e2e -> prod  Allow", append([]string{"history", image}, gates...)...)
	if !strings.Contains(shown, "e2e -> prod  Deny") {
		t.Errorf("the Gate of the other cluster takes another key: %s", shown)
	}
	// The other way round too: that which comes first is not the one that finds it.
	command(t, cli.ExitDenied, "e2e -> prod  Allow", "history", image, gates[1], gates[0])
}

func TestHistory_MermaidShowsTheEvidenceThatNoGateAsksFor(t *testing.T) {
	_, private, public := newKeys(t)
	depot := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(depot.Close)
	image := depot.Host() + "/shop/app:1"
	if _, err := testkit.PushImage(image, "app"); err != nil {
		t.Fatal(err)
	}
	_, other, _ := newKeys(t)
	command(t, cli.ExitPass, "PASSED", "attest", image, "--environment=e2e", "--key="+private)
	command(t, cli.ExitPass, "FAILED", "attest", image, "--environment=ci", "--failed", "--key="+other)
	shown := command(t, cli.ExitPass, `env_e2e["e2e<br/>`, "history", image, "--key="+public, "--format=mermaid")
	for _, line := range strings.Split(shown, "\n") {
		if strings.Contains(line, "env_e2e") != strings.Contains(line, "PASSED verified") || strings.Contains(line, "env_ci") != strings.Contains(line, "FAILED NOT VERIFIED") {
			t.Errorf("%s", line)
		}
	}
}
