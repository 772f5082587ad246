package policyimport

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
)

// document reads YAML as JSON has it.
func document(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return out
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// judge evaluates an imported policy as a Gate does an object that is no Workload.
func judge(t *testing.T, p Policy, constraint, object map[string]any) gate.Findings {
	t.Helper()
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	kind, _ := object["kind"].(string)
	return policy.New().Evaluate(context.Background(), &gate.Input{
		Gate: gate.Config{
			Name: "g", Policies: []gate.PolicySet{{Name: "sluice-system/imported", Modules: p.Modules}},
			Parameters: map[string]any{p.Name: constraint},
		},
		Object:    gate.ObjectRef{Kind: kind, Name: name},
		Submitted: object, Children: []map[string]any{object},
	})
}

func TestTemplate_JudgesAsUnderGatekeeper(t *testing.T) {
	folders, err := os.ReadDir("testdata")
	if err != nil || len(folders) < 10 {
		t.Fatalf("%d templates: %v", len(folders), err)
	}
	for _, folder := range folders {
		t.Run(folder.Name(), func(t *testing.T) {
			p, err := Template(document(t, read(t, folder.Name(), "template.yaml")))
			if err != nil {
				t.Fatal(err)
			}
			constraint := document(t, read(t, folder.Name(), "constraint.yaml"))
			for _, outcome := range []string{"pass", "fail"} {
				for i, text := range strings.Split(read(t, folder.Name(), outcome+".yaml"), "---\n") {
					found := judge(t, p, constraint, document(t, text))
					if len(found.Undecided)+len(found.Warn) > 0 || (len(found.Deny) == 1) != (outcome == "fail") {
						t.Errorf("%s[%d]: %+v\n%s", outcome, i, found, p.Modules[p.Name+".rego"])
					}
					for _, f := range found.Deny {
						if f.Message == "" || strings.Contains(f.Message, "gives no message") || !strings.Contains(f.Object, "/") {
							t.Errorf("finding: %+v", f)
						}
					}
				}
			}
		})
	}
}

func TestTemplate_IsAskedAboutTheWorkloadAndEachChild(t *testing.T) {
	p, err := Template(document(t, read(t, "labels", "template.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	workload := document(t, "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\n")
	deployment := document(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n")
	found := policy.New().Evaluate(context.Background(), &gate.Input{
		Gate: gate.Config{Policies: []gate.PolicySet{{Name: "a/b", Modules: p.Modules}}, Parameters: map[string]any{
			p.Name: document(t, read(t, "labels", "constraint.yaml"))}},
		Object:    gate.ObjectRef{APIVersion: "sluice.dev/v1beta1", Kind: "Workload", Name: "web", Namespace: "shop"},
		Submitted: workload, Children: []map[string]any{deployment},
	})
	if len(found.Deny) != 2 || found.Deny[0].Object != "Deployment/shop/web" || found.Deny[1].Object != "Workload/shop/web" {
		t.Fatalf("%+v", found)
	}
}

func TestTemplate_AConstraintThatIsNotUnderstoodDenies(t *testing.T) {
	p, err := Template(document(t, read(t, "labels", "template.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	pod := document(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {team: shop}}\n")
	for constraint, says := range map[string]string{
		`{}`:                        "spec.parameters.houselabels of the Gate is missing",
		`{paramters: {labels: []}}`: "spec.parameters.houselabels.paramters of the Gate is not known",
		`{match: {namespaces: [a]}, parameters: {labels: []}}`:                                  "houselabels.match.namespaces of the Gate is not known",
		`{enforcementAction: dryrun, parameters: {labels: []}}`:                                 "houselabels.enforcementAction of the Gate",
		`{enforcementAction: deny, match: {kinds: [{kinds: ["*"]}]}, parameters: {labels: []}}`: "",
	} {
		found := judge(t, p, document(t, constraint), pod)
		if len(found.Undecided) > 0 || (says == "") != (len(found.Deny) == 0) || says != "" && !strings.Contains(found.Deny[0].Message, says) {
			t.Errorf("%s: %+v", constraint, found)
		}
	}
}

// template with Rego of its own.
func template(rego string) string {
	return "metadata: {name: x}\nspec:\n  crd: {spec: {names: {kind: X}}}\n  targets:\n  - target: admission.k8s.gatekeeper.sh\n    rego: |\n      " +
		strings.ReplaceAll(rego, "\n", "\n      ") + "\n"
}

func TestTemplate_RefusesWhatWouldFindLess(t *testing.T) {
	const head = "package x\nviolation[{\"msg\": \"m\"}] { "
	for name, c := range map[string]struct{ text, says string }{
		"the old object":            {template(head + "input.review.oldObject.x }"), "x.rego:2: the template reads input.review.oldObject.x: the gates know of a review only kind, name, namespace, object, operation"},
		"who asks":                  {template(head + "input.review.userInfo.username == \"a\" }"), "input.review.userInfo.username"},
		"a field by a variable":     {template(head + "f := \"userInfo\"; input.review[f] }"), "the template reads input.review[f]"},
		"what there is not":         {template(head + "input.constraint.x }"), "there are input.review and input.parameters"},
		"the inventory":             {template(head + "data.inventory.cluster.v1.Namespace[_] }"), "none of the cluster's inventory"},
		"the inventory, imported":   {template("package x\nimport data.inventory\nviolation[{\"msg\": \"m\"}] { inventory.cluster }"), "inventory"},
		"external data":             {template(head + "external_data({}) }"), "undefined function external_data"},
		"network":                   {template(head + "http.send({}) }"), "function http.send is not available"},
		"no violation":              {template("package x\nallow { true }"), "x.rego: the template has no violation rule"},
		"no Rego":                   {template("violation"), "x.rego:1"},
		"a name of another kind":    {strings.Replace(template(head+"true }"), "kind: X", "kind: Y", 1), "in lower case"},
		"CEL alone":                 {"metadata: {name: x}\nspec: {crd: {spec: {names: {kind: X}}}, targets: [{code: [{engine: K8sNativeValidation}]}]}", "K8sNativeValidation: only Rego"},
		"no code at all":            {"metadata: {name: x}\nspec: {crd: {spec: {names: {kind: X}}}, targets: [{}]}", "has no Rego"},
		"no target":                 {"metadata: {name: x}\nspec: {crd: {spec: {names: {kind: X}}}}", "0 entries"},
		"a library that is no text": {"metadata: {name: x}\nspec: {crd: {spec: {names: {kind: X}}}, targets: [{rego: a, libs: [1]}]}", "libs[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Template(document(t, c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %q", err, c.says)
			}
		})
	}
}

func TestTemplate_GivesTheSameTextEveryTime(t *testing.T) {
	content := document(t, read(t, "privileged", "template.yaml"))
	first, err := Template(content)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Template(content)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Modules) != 3 {
		t.Errorf("%d modules", len(first.Modules))
	}
	for file, text := range first.Modules {
		if second.Modules[file] != text {
			t.Errorf("%s differs:\n%s\n%s", file, text, second.Modules[file])
		}
	}
}
