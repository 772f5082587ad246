package policy

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// said is what a source finds over goodInput, as "object: message".
func said(t *testing.T, modules ...string) []string {
	t.Helper()
	found := New().Evaluate(context.Background(), goodInput(source(modules...)))
	if len(found.Undecided) > 0 {
		t.Fatal(show(found))
	}
	out := []string{}
	for _, f := range append(found.Deny, found.Warn...) {
		out = append(out, f.Object+": "+f.Message)
	}
	return out
}

func source(modules ...string) gate.PolicySet {
	set := gate.PolicySet{Name: "sluice-system/house", Modules: map[string]string{}}
	for i, text := range modules {
		set.Modules[string(rune('a'+i))+".rego"] = text
	}
	return set
}

// deployment is a policy as conftest's own documentation has them.
const deploymentPolicy = `package main

deny contains msg if {
	input.kind == "Deployment"
	not input.spec.template.spec.hostNetwork
	msg := sprintf("%s is not on the host's network", [input.metadata.name])
}
`

func TestManner_ConftestPoliciesRunUnchanged(t *testing.T) {
	const deployment = "Deployment/shop/orders: "
	cases := map[string]struct {
		modules []string
		want    []string
	}{
		"a rule about one kind": {[]string{deploymentPolicy}, []string{deployment + "orders is not on the host's network"}},
		"a rule about every kind meets the Workload and each child": {
			[]string{"package main\ndeny contains input.kind if input.metadata.name"},
			[]string{"Workload/shop/orders: Workload", "Deployment/shop/orders: Deployment", "Service/shop/orders: Service", "ConfigMap/shop/orders: ConfigMap",
				"PodDisruptionBudget/shop/orders: PodDisruptionBudget", "NetworkPolicy/shop/orders: NetworkPolicy", "ServiceAccount/shop/orders: ServiceAccount"},
		},
		"a warning": {[]string{"package main\nwarn contains \"w\" if input.kind == \"Service\""}, []string{"Service/shop/orders: w"}},
		"a rule with a suffix and a violation with details": {
			[]string{"package main\nviolation_port contains {\"msg\": \"p\", \"details\": {\"x\": 1}} if input.kind == \"Service\""},
			[]string{"Service/shop/orders: p"},
		},
		"a helper in another package reads the object": {
			[]string{
				"package main\nimport data.kubernetes\ndeny contains \"no\" if {\n\tkubernetes.is_deployment\n\tsome c in kubernetes.containers\n\tnot c.livenessProbe\n}",
				"package kubernetes\nis_deployment if input.kind == \"Deployment\"\ncontainers := input.spec.template.spec.containers",
			}, []string{deployment + "no"},
		},
		"input is imported under another name": {
			[]string{"package main\nimport input as k8s\ndeny contains \"no\" if k8s.kind == \"Deployment\""}, []string{deployment + "no"},
		},
		"input is kept in a variable": {
			[]string{"package main\ndeny contains \"no\" if {\n\tobject := input\n\tsame := object\n\tsame.kind == \"Deployment\"\n}"}, []string{deployment + "no"},
		},
		"a field is read by object.get": {
			[]string{"package main\ndeny contains \"no\" if object.get(input, \"kind\", \"\") == \"Deployment\"",
				"package other\ndeny contains \"path\" if object.get(input, [\"metadata\", \"labels\", \"x\"], \"none\") == input.data[\"orders.conf\"]"}, []string{deployment + "no"},
		},
		"a rule that calls another for the pod of its object": {
			[]string{"package main\ndeny_pod contains \"pod\" if {\n\tinput.kind == \"Pod\"\n\tinput.spec.containers\n}\n" +
				"deny contains msg if {\n\tinput.kind == \"Deployment\"\n\tsome msg in deny_pod with input as {\"kind\": \"Pod\", \"spec\": input.spec.template.spec}\n}"},
			[]string{deployment + "pod"},
		},
		"beside a policy over what Sluice gives": {
			[]string{deploymentPolicy, "package house\ndeny contains sprintf(\"%d children\", [count(input.children)]) if input.environment == \"prod\""},
			[]string{"Workload/shop/orders: 6 children", deployment + "orders is not on the host's network"},
		},
		"called by a policy over what Sluice gives, it is not evaluated on its own too": {
			[]string{"package conftest\ndeny contains \"no\" if input.kind != \"Service\"",
				"package main\ndeny contains msg if {\n\tsome child in input.children\n\tchild.kind == \"Deployment\"\n\tsome msg in data.conftest.deny with input as child\n}"},
			[]string{"Workload/shop/orders: no"},
		},
		"a test within the module calls nothing": {
			[]string{deploymentPolicy + "\ntest_it if count(deny) == 1 with input as {\"kind\": \"Deployment\", \"metadata\": {\"name\": \"x\"}, \"children\": []}"},
			[]string{deployment + "orders is not on the host's network"},
		},
		"all of input is what Sluice gives": {
			[]string{"package main\ndeny contains \"no\" if {\n\twalk(input, [path, \"Deployment\"])\n\tpath[0] == \"children\"\n}"}, []string{"Workload/shop/orders: no"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := said(t, c.modules...)
			seen := map[string]bool{}
			for _, s := range got {
				seen[s] = true
			}
			want := map[string]bool{}
			for _, s := range c.want {
				want[s] = true
			}
			if len(got) != len(c.want) || !reflect.DeepEqual(seen, want) {
				t.Fatalf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestManner_AJudgedPodIsAskedAboutOnce(t *testing.T) {
	in := goodInput(source("package main\ndeny contains \"no\" if input.kind == \"Pod\""))
	pod := child("Pod", podTemplate()["spec"].(map[string]any))
	in.Object = gate.ObjectRef{APIVersion: "v1", Kind: "Pod", Name: "orders", Namespace: "shop"}
	in.Submitted, in.Children = pod, []map[string]any{pod}
	found := New().Evaluate(context.Background(), in)
	if len(found.Deny) != 1 || found.Deny[0].Object != "Pod/shop/orders" || len(found.Undecided) > 0 {
		t.Fatal(show(found))
	}
}

func TestManner_ARuleThatReadsBothIsUndecided(t *testing.T) {
	for name, modules := range map[string][]string{
		"in one rule":       {"package main\ndeny contains \"no\" if {\n\tinput.kind == \"Deployment\"\n\tinput.spec.replicas < input.parameters.house.min\n}"},
		"in rules of a set": {"package main\ndeny contains \"a\" if input.kind == \"Deployment\"\n\ndeny contains \"b\" if count(input.children) > 9"},
		"through a helper":  {"package main\ndeny contains \"a\" if data.k.deployment with data.x as input.environment", "package k\ndeployment if input.kind == \"Deployment\""},
	} {
		t.Run(name, func(t *testing.T) {
			found := New().Evaluate(context.Background(), goodInput(source(modules...)))
			if len(found.Deny) > 0 || len(found.Undecided) != 1 || !strings.Contains(found.Undecided[0].Message, "data.main.deny: it takes input for one Kubernetes object (input.kind, ") {
				t.Fatal(show(found))
			}
		})
	}
}

func TestManner_ARuleForSomeOtherInputIsUndecided(t *testing.T) {
	for name, module := range map[string]string{
		"an AdmissionReview":          "package main\ndeny contains \"no\" if input.request.kind.kind == \"Pod\"",
		"Gatekeeper's":                "package main\nviolation contains {\"msg\": \"no\"} if input.review.object.kind == \"Deployment\"",
		"a field that is typed wrong": "package main\ndeny contains \"no\" if not input.chidlren",
	} {
		t.Run(name, func(t *testing.T) {
			found := New().Evaluate(context.Background(), goodInput(source(module)))
			if len(found.Deny) > 0 || len(found.Undecided) != 1 || !strings.Contains(found.Undecided[0].Message, ": it takes input for something else (input.") {
				t.Fatal(show(found))
			}
		})
	}
}

func TestManner_AWarningOfWhatARuleDeniesIsNoDenial(t *testing.T) {
	const denies = "package k\ndeny contains \"no\" if input.kind == \"Deployment\""
	const warns = "package main\nwarn contains msg if {\n\tsome c in input.children\n\tc.kind == \"Service\"\n\tsome msg in data.k.deny with input as c\n}"
	found := New().Evaluate(context.Background(), goodInput(source(denies, warns)))
	if len(found.Deny) != 1 || found.Deny[0].Object != "Deployment/shop/orders" || len(found.Undecided) > 0 {
		t.Fatal(show(found))
	}
}

func TestManner_AnErrorNamesItsObjectAndHidesNoOther(t *testing.T) {
	found := New().Evaluate(context.Background(), goodInput(source(`package main
name := to_number(input.metadata.name) if input.kind == "Service"
deny contains "no" if input.kind == "Deployment"
deny contains "never" if name > 0`)))
	if len(found.Undecided) != 1 || found.Undecided[0].Object != "Service/shop/orders" || len(found.Deny) != 1 {
		t.Fatal(show(found))
	}
}

func TestManner_CostsAreCountedOverAllObjects(t *testing.T) {
	found := New().Evaluate(context.Background(), goodInput(source(`package main
deny contains "no" if {
	input.kind
	count(numbers.range(1, 50000)) < 0
}`)))
	if len(found.Undecided) != 1 || !strings.Contains(found.Undecided[0].Message, "limits.PolicyBuiltinBytes") {
		t.Fatal(show(found))
	}
}

// A statement may have fields of any name, and is never taken for objects.
func TestManner_StatementsAreNoObjects(t *testing.T) {
	denies, err := Evaluate(context.Background(), "package s\ndeny contains \"no\" if {\n\tinput.kind == \"a\"\n\tinput.environment == \"b\"\n}\ndeny contains \"spec\" if input.spec",
		map[string]any{"kind": "a", "environment": "b", "spec": true})
	if err != nil || !reflect.DeepEqual(denies, []string{"no", "spec"}) {
		t.Fatal(denies, err)
	}
}
