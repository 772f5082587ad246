package cli_test

import (
	"encoding/base64"
	"strings"
	"testing"
)

// talkative is a Gate whose policy prints whatever it is given.
const talkative = `apiVersion: sluice.dev/v1beta1
kind: Gate
metadata: {name: prod}
spec:
  environment: prod
  mode: MODE
  match: {namespaceSelector: {matchLabels: {environment: prod}}, kinds: [Workload, Pod]}
  policies: [{configMap: {name: talkative, namespace: sluice-system}}]
  unmatchedImages: Allow
---
apiVersion: v1
kind: ConfigMap
metadata: {name: talkative, namespace: sluice-system}
data:
  p.rego: |
    package main
    deny contains sprintf("the object is %v", [input.object])
    deny contains {"msg": sprintf("%s is set to %q", [v.name, v.value]), "path": sprintf("env=%s", [v.value])} if some v in _env
    warn contains sprintf("%01020d%s", [0, v.value]) if some v in _env
    warn contains base64.encode(v.value) if some v in _env
    warn contains json.marshal(input.children)
    _env contains v if { walk(input, [_, v]); v.name; v.value }
`

func TestOutput_ShowsNoSecrets(t *testing.T) {
	const secret = `hunter2 "in" plain\sight`
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	env := "  env: [{name: DB_PASSWORD, value: '" + secret + "'}]\n"
	container := `{"name":"app","env":[{"name":"DB_PASSWORD","value":"hunter2 \"in\" plain\\sight"}]}`
	applied := `'{"kind":"Pod","spec":{"containers":[` + container + `]}}'`
	for name, tc := range map[string]struct{ manifest, says string }{
		"a variable":                      {head + "a\n" + env, "(masked)"},
		"a variable by a patch":           {head + "a\n  patches: [{target: {kind: Deployment}, patch: '[{\"op\":\"add\",\"path\":\"/spec/template/spec/containers/-\",\"value\":" + container + "}]'}]\n", "(masked)"},
		"a patch that does not fit":       {head + "a\n  patches: [{target: {kind: Deployment}, patch: '{\"spec\":{\"template\":{\"spec\":{\"containers\":" + container + "}}}}'}]\n", "spec.patches"},
		"a patch at no place":             {head + "a\n  patches: [{target: {kind: Deployment}, patch: '[{\"op\":\"replace\",\"path\":\"/spec/nowhere/env/0/value\",\"value\":\"hunter2 \\\"in\\\" plain\\\\sight\"}]'}]\n", "spec.patches"},
		"a patch whose test fails":        {head + "a\n" + env + "  patches: [{target: {kind: Deployment}, patch: '[{\"op\":\"test\",\"path\":\"/spec/template/spec/containers/0/env/0/value\",\"value\":\"x\"}]'}]\n", "spec.patches"},
		"a patch with an unknown field":   {head + "a\n  patches: [{target: {kind: Deployment}, patch: '{\"spec\":{\"template\":{\"spec\":{\"container\":[" + container + "]}}}}'}]\n", "spec.patches"},
		"a patch that is no patch":        {head + "a\n" + env + "  patches: [{patch: 'env: [{name: DB_PASSWORD, value: hunter2 in}'}]\n", "spec.patches"},
		"a spec that is not valid":        {head + "a\n" + env + "  tenant: '" + secret + "'\n", "spec.tenant"},
		"a list where a text has to be":   {head + "a\n  env: [{name: DB_PASSWORD, value: ['" + secret + "']}]\n", "spec.env[0].value"},
		"a variable given twice":          {head + "a\n  env: [{name: DB_PASSWORD, value: '" + secret + "'}, {name: DB_PASSWORD, value: '" + secret + "'}]\n", "spec.env[1]"},
		"a Pod with kubectl's copy of it": {"apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, annotations: {kubectl.kubernetes.io/last-applied-configuration: " + applied + "}}\nspec: {containers: [" + container + "]}\n", "(masked)"},
	} {
		for _, mode := range []string{"Enforce", "Warn"} {
			for _, args := range [][]string{{"check", "-", "--gate", "@gate.yaml", "--format", "text"}, {"check", "-", "--gate", "@gate.yaml", "--format", "json"}, {"render", "-"}} {
				t.Run(strings.Join(append(args[:1:1], name, mode, args[len(args)-1]), " "), func(t *testing.T) {
					d := newDesk(t)
					d.write(t, "gate.yaml", strings.Replace(talkative, "MODE", mode, 1))
					got := d.run(namespace+tc.manifest, args...)
					said := got.err
					if args[0] == "check" {
						said += got.out
					} else if got.code == 0 {
						t.Skip("it renders, and what it renders is what was asked for")
					}
					if !strings.Contains(said, tc.says) && args[0] == "check" || said == "" {
						t.Errorf("%q is not said:\n%s", tc.says, said)
					}
					for _, part := range []string{"hunter2", `plain\sight`, encoded} {
						if strings.Contains(said, part) {
							t.Fatalf("%q is shown:\n%s", part, said)
						}
					}
				})
			}
		}
	}
}

// Kustomize quotes the patch of an overlay that it cannot apply.
func TestOutput_ShowsNoSecretsOfAnOverlay(t *testing.T) {
	for name, kustomization := range map[string]string{
		"a patch for nothing":       "resources: [web.yaml]\npatches: [{target: {kind: Workload}, patch: '[{\"op\":\"replace\",\"path\":\"/spec/nowhere/x\",\"value\":\"hunter2\"}]'}]\n",
		"a patch of the wrong form": "resources: [web.yaml]\npatches: [{target: {kind: Workload}, patch: '{\"spec\":[{\"name\":\"PASSWORD\",\"value\":\"hunter2\"}]}'}]\n",
		"a patch without a target":  "resources: [web.yaml]\npatches: [{patch: 'env: [{name: PASSWORD, value: hunter2}]'}]\n",
		"a generator given twice":   "resources: [web.yaml]\nsecretGenerator: [{name: a, literals: [password=hunter2]}, {name: a, literals: [password=hunter2x]}]\n",
		"a generator of no key":     "resources: [web.yaml]\nsecretGenerator: [{name: a, literals: [hunter2]}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.write(t, "k/web.yaml", head+"a\n")
			d.write(t, "k/kustomization.yaml", kustomization)
			got := d.run("", "check", "@k", "--gate", "@gate.yaml")
			if got.err == "" || strings.Contains(got.out+got.err, "hunter2") {
				t.Errorf("code %d\n%s\n%s", got.code, got.out, got.err)
			}
		})
	}
}
