package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/cli"
)

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {mode: {type: string, enum: [a, b]}, size: {type: integer}}}}}}
`

func TestCRDCheck_Exits(t *testing.T) {
	narrower := strings.Replace(definition, "[a, b]", "[a]", 1)
	ruled := strings.Replace(definition, "mode: {type: string,", "mode: {type: string, x-kubernetes-validations: [{rule: self != 'c'}],", 1)
	allow := "allow: [{crd: things.example.com, rule: enum-changed, reason: nobody has b}, {crd: things.example.com, rule: default-changed, reason: a}]\n"
	for name, c := range map[string]struct {
		now  string
		args []string
		code int
		says []string
	}{
		"0: the same":                      {definition, nil, 0, []string{"0 breaking"}},
		"0: a rule":                        {ruled, nil, 0, []string{"WARNING", "rule-changed", "to do: ", "0 breaking, 1 warnings"}},
		"1: a rule, and warnings count":    {ruled, []string{"--fail-on", "warning"}, 1, nil},
		"1: a value fewer":                 {narrower, nil, 1, []string{"BREAKING  things.example.com v1 spec.mode [enum-changed]", `"b" is not accepted any more`, "1 breaking"}},
		"0: a value fewer that is allowed": {narrower, []string{"--allow", "@allow.yaml"}, 0, []string{"ALLOWED", "allowed: nobody has b", "1 allowed", `nothing is allowed by "things.example.com default-changed"`}},
		"2: a list that is none":           {narrower, []string{"--allow", "@new.yaml"}, 2, []string{"--allow"}},
		"2: no definition":                 {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", nil, 2, []string{"no CustomResourceDefinition"}},
		"2: an older API":                  {strings.Replace(definition, "k8s.io/v1", "k8s.io/v1beta1", 1), nil, 2, []string{"v1beta1"}},
		"2: one twice":                     {definition + "---\n" + definition, nil, 2, []string{"things.example.com stands in"}},
		"2: a format":                      {definition, []string{"--format", "xml"}, 2, []string{"--format=xml"}},
		"2: a severity":                    {definition, []string{"--fail-on", "info"}, 2, []string{"--fail-on=info"}},
		"2: a revision that there is not":  {definition, []string{"nothing:a"}, 2, []string{`"nothing:a" is one word too many: sluice crd check takes OLD and NEW`}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{dir: t.TempDir()}
			d.write(t, "old.yaml", definition)
			d.write(t, "new.yaml", c.now)
			d.write(t, "allow.yaml", allow)
			d.run("", append([]string{"crd", "check", "@old.yaml", "@new.yaml"}, c.args...)...).must(t, c.code, c.says...)
		})
	}
}

func TestCRDCheck_JSON(t *testing.T) {
	d := &desk{dir: t.TempDir()}
	d.write(t, "old.yaml", definition)
	got := d.run(strings.Replace(definition, "[a, b]", "[a]", 1), "crd", "check", "@old.yaml", "-", "--format=json")
	got.must(t, cli.ExitDenied)
	var out struct {
		Breaking int
		Findings []map[string]string
	}
	if err := json.Unmarshal([]byte(got.out), &out); err != nil {
		t.Fatalf("%v: %s", err, got.out)
	}
	if out.Breaking != 1 || len(out.Findings) != 1 || out.Findings[0]["path"] != "spec.mode" || out.Findings[0]["remedy"] == "" {
		t.Errorf("output: %s", got.out)
	}
}

func TestCRDCheck_AgainstARevision(t *testing.T) {
	d := &desk{dir: t.TempDir()}
	d.write(t, "crds/kustomization.yaml", "resources: [thing.yaml]\n")
	d.write(t, "crds/thing.yaml", definition)
	d.git(t, "init", "-q")
	d.git(t, "add", "-A")
	d.git(t, "commit", "-qm", "a")
	d.git(t, "tag", "v1")
	d.write(t, "crds/thing.yaml", strings.Replace(definition, ", size: {type: integer}", "", 1))
	t.Chdir(filepath.Join(d.dir, "crds"))
	for _, old := range []string{"v1:crds", "v1:.", "HEAD:./thing.yaml"} {
		d.run("", "crd", "check", old, "@crds").must(t, 1, "spec.size [field-removed]")
	}
	d.run("", "crd", "check", "v1:gone", "@crds").must(t, 2, "v1:gone")
	d.run("", "crd", "check", "v9:crds", "@crds").must(t, 2, `no revision "v9"`)
}
