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
