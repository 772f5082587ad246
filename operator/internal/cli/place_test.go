package cli_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// below writes an overlay over a base with one Workload.
func (d *desk) below(t *testing.T, spec, kustomization string) {
	t.Helper()
	d.write(t, "base/kustomization.yaml", "resources: [web.yaml]\n")
	d.write(t, "base/web.yaml", head+spec)
	d.write(t, "over/kustomization.yaml", "resources: [../base]\n"+kustomization)
	d.write(t, "ns.yaml", namespace)
	d.write(t, ".git/HEAD", "")
}

func TestCheck_PointsToTheSource(t *testing.T) {
	d := newDesk(t)
	for name, c := range map[string]struct {
		spec, kustomization string
		says                []string
	}{
		"the image of a child is the Workload's": {d.image("unsigned") + "\n", "", []string{"where: FILE/base/web.yaml:5:3 spec.image\n", "5 |   image: ", "  |   ^\n"}},
		"a patch in the overlay": {d.image("signed") + "\n", "patches:\n- patch: |-\n    apiVersion: sluice.dev/v1beta1\n    kind: Workload\n    metadata: {name: web, namespace: shop}\n    spec: {image: '" + d.image("unsigned") + "'}\n",
			[]string{"where: FILE/over/kustomization.yaml:7:12 patches[0].patch: spec.image\n"}},
		"a patch of the Workload's children": {d.image("signed") + "\n  patches:\n  - target: {kind: Deployment}\n    patch: '[{\"op\": \"add\", \"path\": \"/spec/template/spec/hostNetwork\", \"value\": true}]'\n", "", []string{"where: FILE/base/web.yaml:7:5 spec.patches[0]\n"}},
		"a field that there is not":          {d.image("signed") + "\n  replica: 3\n", "", []string{"where: FILE/base/web.yaml:6:3 spec.replica\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			d.below(t, c.spec, c.kustomization)
			got := d.run("", "check", "@over", "--gate", "@gate.yaml", "--gate", "@ns.yaml")
			for _, s := range c.says {
				got.must(t, 1, strings.ReplaceAll(s, "FILE", d.dir))
			}
			annotated := d.run("", "check", "@over", "--gate", "@gate.yaml", "--gate", "@ns.yaml", "--format", "github")
			annotated.must(t, 1, "::error file="+d.dir)
		})
	}
}

func TestCheck_CodeShowsNoSecrets(t *testing.T) {
	d := newDesk(t)
	const secret = "hunter2-and-more"
	d.below(t, d.image("unsigned")+"\n  env:\n  - {name: PASSWORD, value: "+secret+"}\n", fmt.Sprintf(`patches:
- target: {kind: Workload}
  patch: '[{"op": "replace", "path": "/spec/env", "value": [{"name": "PASSWORD", "value": "%[1]s-2"}]}, {"op": "replace", "path": "/spec/image", "value": "%[2]s"}]'
secretGenerator: [{name: a, literals: [password=%[1]s-3]}]
`, secret, d.image("unsigned")))
	for _, format := range []string{"text", "sarif", "junit", "github", "markdown"} {
		got := d.run("", "check", "@over", "--gate", "@gate.yaml", "--gate", "@ns.yaml", "--format", format)
		got.must(t, 1, filepath.Join(d.dir, "over/kustomization.yaml"))
		if strings.Contains(got.out+got.err, secret) {
			t.Errorf("%s shows a secret:\n%s", format, got.out)
		}
	}
}

func TestCheck_SARIFSaysWhatARuleIs(t *testing.T) {
	d := newDesk(t)
	d.below(t, d.image("unsigned")+"\n", "")
	d.run("", "check", "@over", "--gate", "@gate.yaml", "--gate", "@ns.yaml", "--format", "sarif").must(t, 1, `"id": "signature"`, `"text": "Images are signed"`)
	d.write(t, "gate.yaml", strings.Replace(d.gate("prod"), "[{builtin: restricted}]", "[{builtin: supply_chain}]\n  parameters: {supply_chain: {requireDigest: true}}", 1))
	d.run("", "check", "@over", "--gate", "@gate.yaml", "--gate", "@ns.yaml", "--format", "sarif").must(t, 1, `"id": "supply_chain/pinned"`, `"text": "Images are named by digest"`, `docs/policies.md#supply_chain"`)
}
