package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/cli"
)

const gatekeeperTemplate = `apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: houseteam}
spec:
  crd: {spec: {names: {kind: HouseTeam}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package houseteam
        violation[{"msg": msg}] {
          key := input.parameters.label
          not input.review.object.metadata.labels[key]
          msg := sprintf("label %v is missing", [key])
        }
`

func runPolicy(t *testing.T, in string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Main(t.Context(), append([]string{"policy", "import"}, args...), strings.NewReader(in), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// The whole way: what is printed is what a Gate can ask for.
func TestPolicyImport_AGateAsksForWhatIsPrinted(t *testing.T) {
	code, config, hints := runPolicy(t, gatekeeperTemplate, "-")
	if code != 0 || !strings.Contains(hints, "spec.parameters.houseteam") {
		t.Fatalf("exit code %d: %s", code, hints)
	}
	d := newDesk(t)
	d.write(t, "policies.yaml", config)
	gate := d.gate("prod") + "\n---\napiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: imported}\nspec:\n  environment: prod\n  match: {namespaceSelector: {matchLabels: {environment: prod}}}\n" +
		"  policies: [{configMap: {name: houseteam, namespace: sluice-system}}]\n  unmatchedImages: Allow\n  parameters: {houseteam: {match: {kinds: [{kinds: [Workload]}]}, parameters: {label: LABEL}}}\n"
	for label, c := range map[string]struct {
		code int
		says string
	}{"team": {1, "label team is missing"}, "tier": {0, "gate imported"}} {
		d.write(t, "gate.yaml", strings.ReplaceAll(gate, "LABEL", label))
		in := namespace + strings.Replace(head, "name: web", "labels: {tier: x}, name: web", 1) + d.image("signed") + "\n"
		d.run(in, "check", "-", "--gate", "@gate.yaml", "--gate", "@policies.yaml").must(t, c.code, c.says)
	}
}

func TestPolicyImport_WritesModulesAndOverwritesNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "policies")
	if code, out, errOut := runPolicy(t, gatekeeperTemplate, "-", "--dir", dir); code != 0 || out != "" || !strings.Contains(errOut, "wrote ") {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
	text, err := os.ReadFile(filepath.Join(dir, "houseteam.rego"))
	if err != nil || !strings.Contains(string(text), "gatekeeper_violation contains {\"msg\": msg} if {") {
		t.Fatalf("%v: %s", err, text)
	}
	if code, _, errOut := runPolicy(t, gatekeeperTemplate, "-", "--dir", dir); code != 2 || !strings.Contains(errOut, "houseteam.rego is there already") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

func TestPolicyImport_SaysWhatItCannotImport(t *testing.T) {
	for text, says := range map[string]string{
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n":              "holds no ConstraintTemplate of templates.gatekeeper.sh",
		strings.Replace(gatekeeperTemplate, "review.object", "review.old", 1): "ConstraintTemplate houseteam: houseteam.rego:4: the template reads input.review.old",
		strings.Replace(gatekeeperTemplate, "violation[", "violation[[[[", 1): "houseteam.rego:2",
		strings.Replace(gatekeeperTemplate, "houseteam}", "otherteam}", 1):    "in lower case",
	} {
		if code, out, errOut := runPolicy(t, text, "-"); code != 2 || out != "" || !strings.Contains(errOut, says) {
			t.Errorf("exit code %d: %s%s, want %q", code, out, errOut, says)
		}
	}
}
