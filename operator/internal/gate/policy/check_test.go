package policy

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

func TestCheck_LibraryAllowsAWellFormedWorkload(t *testing.T) {
	found := New().Evaluate(context.Background(), goodInput(allBuiltins(t)...))
	if len(found.Deny)+len(found.Warn)+len(found.Undecided) > 0 {
		t.Fatal(show(found))
	}
}

func TestCheck_LibraryFindsWhatAPatchUndoes(t *testing.T) {
	in := goodInput(builtin(t, "restricted"), builtin(t, "secrets"))
	mainContainer(in)["securityContext"].(map[string]any)["privileged"] = true
	found := New().Evaluate(context.Background(), in)
	want := []gate.Finding{{
		Policy: "restricted/privileged", Severity: "critical", Object: "Deployment/shop/orders",
		Path:    "spec.template.spec.containers[0].securityContext.privileged",
		Message: `container "main" is privileged`,
		Remedy: "Remove privileged and hostProcess from the securityContext; " +
			"ask for the one capability or device that is needed.",
	}}
	if !reflect.DeepEqual(found.Deny, want) || len(found.Undecided) > 0 {
		t.Fatal(show(found))
	}
}

func TestCheck_ReadsWhatPoliciesGive(t *testing.T) {
	finding := func(change func(*gate.Finding)) []gate.Finding {
		f := gate.Finding{Policy: "sluice-system/house/main", Severity: "high", Object: "Workload/shop/orders", Message: "no"}
		change(&f)
		return []gate.Finding{f}
	}
	cases := map[string]struct {
		rego string
		want gate.Findings
	}{
		"a string, as conftest has it": {
			`deny contains "no" if input.environment == "prod"`,
			gate.Findings{Deny: finding(func(*gate.Finding) {})},
		},
		"an object with msg alone": {
			`deny contains {"msg": "no"} if true`,
			gate.Findings{Deny: finding(func(*gate.Finding) {})},
		},
		"an object with everything": {
			`deny contains {"msg": "no", "path": "spec.x", "object": "A/b/c", "remedy": "do"} if true`,
			gate.Findings{Deny: finding(func(f *gate.Finding) { f.Path, f.Object, f.Remedy = "spec.x", "A/b/c", "do" })},
		},
		"an object with keys of Gatekeeper's": {
			`violation contains {"msg": "no", "details": {"x": 1}} if true`,
			gate.Findings{Deny: finding(func(*gate.Finding) {})},
		},
		"a rule with a suffix, as conftest allows": {
			`deny_root contains "no" if true`,
			gate.Findings{Deny: finding(func(*gate.Finding) {})},
		},
		"a warning": {
			`warn contains "no" if true`,
			gate.Findings{Warn: finding(func(*gate.Finding) {})},
		},
		"nothing": {`deny contains "no" if input.environment == "dev"`, gate.Findings{}},
		"an empty message still denies": {
			`deny contains "" if true`,
			gate.Findings{Deny: finding(func(f *gate.Finding) { f.Message = "the policy gives no reason" })},
		},
		"severity and remedy of the rule": {
			"# METADATA\n# custom:\n#   severity: low\n#   remedy: do\ndeny contains \"no\" if true",
			gate.Findings{Deny: finding(func(f *gate.Finding) { f.Severity, f.Remedy = "low", "do" })},
		},
		"the worst severity of rules that fill one set": {
			"# METADATA\n# custom:\n#   severity: low\n#   remedy: a\ndeny contains \"no\" if true\n" +
				"# METADATA\n# custom:\n#   severity: critical\n#   remedy: b\ndeny contains \"no\" if true",
			gate.Findings{Deny: finding(func(f *gate.Finding) { f.Severity = "critical" })},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := New().Evaluate(context.Background(), goodInput(house("package main\n"+c.rego)))
			if !reflect.DeepEqual(got, c.want) {
				t.Fatalf("got\n%s\nwant\n%s", show(got), show(c.want))
			}
		})
	}
}

func TestCheck_GivesPoliciesTheDocumentedInput(t *testing.T) {
	set := house(`package main
deny contains "differs" if not same
same if {
	object.keys(input) == {"environment", "namespace", "workload", "object", "children", "images", "parameters"}
	input.environment == "prod"
	input.namespace == {"name": "shop", "labels": {"sluice.dev/environment": "prod"}}
	input.workload.spec.replicas == 3
	input.object == input.workload
	[c.kind | some c in input.children] == ["Deployment", "Service", "ConfigMap", "PodDisruptionBudget", "NetworkPolicy", "ServiceAccount"]
	input.images == [{
		"image": "registry.example.com/shop/orders:1.2.3", "repository": "registry.example.com/shop/orders",
		"tag": "1.2.3", "pinned": false, "digest": concat("", ["sha256:", concat("", ["0" | some _ in numbers.range(1, 64)])]),
		"locations": [{"object": "Deployment/shop/orders", "path": "spec.template.spec.containers[0].image"}],
	}]
	input.parameters == {"reliability": {"minReplicas": 2}}
}`)
	set.Modules["house.rego"] = strings.Replace(set.Modules["house.rego"],
		`concat("", ["sha256:", concat("", ["0" | some _ in numbers.range(1, 64)])])`, `"sha256:`+strings.Repeat("0", 64)+`"`, 1)
	found := New().Evaluate(context.Background(), goodInput(set))
	if len(found.Deny)+len(found.Undecided) > 0 {
		t.Fatal(show(found))
	}
}

func TestCheck_KeepsSourcesApart(t *testing.T) {
	privileged := house(`package sluice.restricted.privileged
deny contains "a rule smuggled into the library" if true`)
	in := goodInput(builtin(t, "restricted"), privileged)
	found := New().Evaluate(context.Background(), in)
	if len(found.Deny) != 1 || found.Deny[0].Policy != "sluice-system/house/sluice.restricted.privileged" {
		t.Fatal(show(found))
	}
}

func TestCheck_WhatCannotBeEvaluatedIsUndecided(t *testing.T) {
	unavailable := house("package main\ndeny contains 1 if true")
	unavailable.Unavailable = "ConfigMap sluice-system/house was not found"
	cases := map[string]struct {
		set          gate.PolicySet
		policy, says string
	}{
		"modules that could not be read": {unavailable, "sluice-system/house", "ConfigMap sluice-system/house was not found"},
		"no modules":                     {gate.PolicySet{Name: "a/b"}, "a/b", "no Rego module"},
		"Rego that does not parse":       {house("package main\ndeny contains"), "sluice-system/house", "house.rego:2"},
		"a denial that is a number":      {house("package main\ndeny contains 1 if true"), "sluice-system/house/main", "type number"},
		"a denial that is null":          {house("package main\ndeny contains null if true"), "sluice-system/house/main", "type null"},
		"a denial without msg":           {house("package main\ndeny contains {\"message\": \"no\"} if true"), "sluice-system/house/main", "without msg"},
		"a msg that is no text":          {house("package main\ndeny contains {\"msg\": [\"no\"]} if true"), "sluice-system/house/main", "msg is of type array"},
		"a path that is no text":         {house("package main\ndeny contains {\"msg\": \"no\", \"path\": 1} if true"), "sluice-system/house/main", "path is of type number"},
		"a warning that is a number":     {house("package main\nwarn contains 1 if true"), "sluice-system/house/main", "type number"},
		"a function that fails":          {house("package main\ndeny contains \"no\" if to_number(input.environment) > 1"), "sluice-system/house/main", "to_number"},
		"a metered function that fails":  {house("package main\ndeny contains \"no\" if count(split(input.environment, input.object.spec.replicas)) > 1"), "sluice-system/house/main", ": split: operand 2 must be string"},
		"rules that contradict":          {house("package main\nx := 1 if true\nx := 2 if true\ndeny contains \"no\" if x == 1"), "sluice-system/house/main", "conflict"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found := New().Evaluate(context.Background(), goodInput(c.set))
			if len(found.Deny)+len(found.Warn) > 0 || len(found.Undecided) != 1 {
				t.Fatal(show(found))
			}
			f := found.Undecided[0]
			if f.Policy != c.policy || !strings.Contains(f.Message, c.says) || f.Remedy == "" || f.Severity != gate.SeverityError {
				t.Fatalf("got %+v, want policy %s and message with %q", f, c.policy, c.says)
			}
		})
	}
}

func TestCheck_AnErrorInOneRuleHidesNoOther(t *testing.T) {
	set := house("package a\ndeny contains \"no\" if to_number(data.shared.word) > 1\n")
	set.Modules["b.rego"] = "package b\ndeny contains \"no\" if to_number(data.shared.word) > 1\n"
	set.Modules["c.rego"] = "package c\ndeny contains \"denied\" if true\n"
	set.Modules["shared.rego"] = "package shared\nword := input.environment\n"
	found := New().Evaluate(context.Background(), goodInput(set))
	if len(found.Undecided) != 2 || len(found.Deny) != 1 {
		t.Fatal(show(found))
	}
}

func TestCheck_AFailingSharedRuleIsUndecidedForEveryUser(t *testing.T) {
	set := house("package a\ndeny contains \"no\" if data.shared.number > 1\n")
	set.Modules["b.rego"] = "package b\ndeny contains \"no\" if data.shared.number > 1\n"
	set.Modules["shared.rego"] = "package shared\nnumber := to_number(input.environment)\n"
	found := New().Evaluate(context.Background(), goodInput(set))
	if len(found.Undecided) != 2 {
		t.Fatal(show(found))
	}
}

func TestCheck_EvaluatesConftestPoliciesOverChildren(t *testing.T) {
	set := house("package conftest\ndeny contains \"too many\" if {\n\tinput.kind == \"Deployment\"\n\tinput.spec.replicas > 2\n}\n")
	set.Modules["main.rego"] = "package main\ndeny contains msg if {\n\tsome child in input.children\n" +
		"\tsome msg in data.conftest.deny with input as child\n}\n"
	found := New().Evaluate(context.Background(), goodInput(set))
	if len(found.Deny) != 1 || found.Deny[0].Message != "too many" || len(found.Undecided) > 0 {
		t.Fatal(show(found))
	}
}

func TestCheck_BoundsWhatOneRuleFinds(t *testing.T) {
	found := New().Evaluate(context.Background(), goodInput(house(`package main
deny contains sprintf("finding %05d", [i]) if some i in numbers.range(1, 5000)`)))
	if len(found.Deny) != limits.Findings+1 {
		t.Fatalf("%d findings", len(found.Deny))
	}
	if last := found.Deny[limits.Findings].Message; last != "and 4800 more findings (limits.Findings)" {
		t.Fatal(last)
	}
	long := New().Evaluate(context.Background(), goodInput(house(`package main
deny contains concat("", ["x" | some i in numbers.range(1, 5000)])`)))
	if got := len(long.Deny[0].Message); got > limits.MessageBytes+len("…") {
		t.Fatalf("a message of %d bytes", got)
	}
}

func TestCheck_IsDeterministicAndSafeForConcurrentUse(t *testing.T) {
	check := New()
	in := goodInput(append(allBuiltins(t), house(`package main
deny contains sprintf("%v", [c.kind]) if some c in input.children`))...)
	mainContainer(in)["securityContext"] = map[string]any{"privileged": true}
	want := check.Evaluate(context.Background(), in)
	if len(want.Deny) < 8 || len(want.Undecided) > 0 {
		t.Fatal(show(want))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got := check.Evaluate(context.Background(), in); !reflect.DeepEqual(got, want) {
					t.Errorf("got\n%s\nwant\n%s", show(got), show(want))
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestCheck_LeavesTheInputAlone(t *testing.T) {
	in := goodInput(allBuiltins(t)...)
	New().Evaluate(context.Background(), in)
	if want := goodInput(allBuiltins(t)...); !reflect.DeepEqual(in, want) {
		t.Fatal("the input was changed")
	}
}

func BenchmarkCheck_TenPolicies(b *testing.B) {
	check := New()
	in := goodInput(builtin(b, "restricted"))
	if found := check.Evaluate(context.Background(), in); len(found.Deny)+len(found.Undecided) > 0 {
		b.Fatal(show(found))
	}
	b.ReportAllocs()
	for b.Loop() {
		check.Evaluate(context.Background(), in)
	}
}

func BenchmarkCheck_WholeLibrary(b *testing.B) {
	check := New()
	in := goodInput(allBuiltins(b)...)
	check.Evaluate(context.Background(), in)
	b.ReportAllocs()
	for b.Loop() {
		check.Evaluate(context.Background(), in)
	}
}
