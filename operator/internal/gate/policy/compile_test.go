package policy

import (
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

func TestCompile_SaysWhatIsWrongAndWhere(t *testing.T) {
	cases := map[string]struct{ rego, says string }{
		"no Rego at all":             {"kind: ConfigMap", "house.rego:1: "},
		"an empty module":            {"", "house.rego:"},
		"a syntax error":             {"package main\n\ndeny contains {", "house.rego:3: "},
		"Rego of version 0":          {"package main\ndeny[msg] { msg := \"no\" }", "house.rego:2: "},
		"a variable that is unknown": {"package main\ndeny contains x if true", "house.rego:2: var x is unsafe"},
		"recursion":                  {"package main\ndeny contains \"no\" if a\na if b\nb if a", "recursive"},
		"network":                    {"package main\ndeny contains \"no\" if http.send({\"method\": \"get\", \"url\": \"http://x\"})", "house.rego:2: function http.send is not available to policies"},
		"the clock":                  {"package main\ndeny contains \"no\" if time.now_ns() > 0", "function time.now_ns is not available"},
		"randomness":                 {"package main\ndeny contains \"no\" if rand.intn(\"x\", 2) == 1", "function rand.intn is not available"},
		"the environment":            {"package main\ndeny contains \"no\" if opa.runtime().env.HOME", "function opa.runtime is not available"},
		"a misspelt function":        {"package main\ndeny contains \"no\" if startwith(\"a\", \"b\")", "house.rego:2: undefined function startwith"},
		"a wrong type":               {"package main\ndeny contains \"no\" if startswith(1, \"b\")", "house.rego:2: startswith: invalid argument(s)"},
		"a denial that is a boolean": {"package main\ndeny := true if input.environment == \"prod\"", "house.rego:2: deny is not a set of findings"},
		"a default denial":           {"package main\ndefault deny := false", "house.rego:2: deny is not a set of findings"},
		"a denial by key":            {"package main\ndeny[msg] if msg := \"no\"", "house.rego:2: deny is not a set of findings"},
		"no rule that is evaluated":  {"package main\nallow if input.environment == \"dev\"", "defines deny, violation or warn"},
		"a severity that is no text": {"package main\n# METADATA\n# custom:\n#   severity: 3\ndeny contains \"no\" if true", "custom.severity of METADATA is not text"},
		"brackets without end":       {"package main\nx := " + strings.Repeat("[", 100000), "house.rego:2: brackets nest"},
		"more than fits": {
			"package main\ndeny contains \"no\" if true\n# " + strings.Repeat("x", limits.PolicyBytes), "limits.PolicyBytes",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := Compile(house(c.rego))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %q", err, c.says)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
		})
	}
}

func TestCompile_RefusesInTimeWhatTheCompilerWouldChokeOn(t *testing.T) {
	const size = limits.PolicyBytes - 100
	for name, text := range map[string]string{
		"a long sum":      "x := 1" + strings.Repeat("+1", size/2),
		"many else":       "z := 1 if false" + strings.Repeat(" else := 1 if false", size/20),
		"many conditions": "z if {" + strings.Repeat("true\n", size/6) + "}",
		"many minus":      "x := " + strings.Repeat("- ", size/3) + "1",
		"many not":        "y if " + strings.Repeat("not ", size/5) + "true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Compile(house("package main\ndeny contains \"no\" if true\n" + text + "\n"))
			if err == nil || strings.Contains(err.Error(), "limits.PolicyCompile") {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestCompile_AcceptsTheLibraryAndItsLikes(t *testing.T) {
	for _, set := range allBuiltins(t) {
		if err := Compile(set); err != nil {
			t.Errorf("%s: %v", set.Name, err)
		}
	}
	for name, text := range map[string]string{
		"a function named like a rule": "package main\ndeny_it(x) if x\ndeny contains \"no\" if deny_it(true)",
		"a package with odd letters":   "package main[\"a-b\"]\ndeny contains \"no\" if true",
		"the import of version 1":      "package main\nimport rego.v1\ndeny contains \"no\" if true",
	} {
		if err := Compile(house(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBuiltin_GivesAGroupWithItsSharedFunctions(t *testing.T) {
	groups := strings.Join(BuiltinGroups(), " ")
	if groups != "baseline data gitops network reliability restricted secrets supply_chain tenancy" {
		t.Errorf("groups %s", groups)
	}
	set := builtin(t, "data")
	if got := strings.Join(sortedKeys(set.Modules), " "); got != "data/backup.rego data/backup_region.rego data/retain.rego data/storage_class.rego lib/labels.rego lib/objects.rego lib/pods.rego lib/texts.rego" {
		t.Errorf("modules %s", got)
	}
	if unsummed := (gate.PolicySet{Name: set.Name, Modules: set.Modules}); set.Sum == "" || set.Digest() != unsummed.Digest() {
		t.Errorf("digest %s, want %s", set.Digest(), unsummed.Digest())
	}
	for _, group := range []string{"lib", "", "restricted/privileged"} {
		if _, ok := Builtin(group); ok {
			t.Errorf("%q is a group", group)
		}
	}
}

func TestCapabilities_HoldNothingThatIsNotTheSameEverywhere(t *testing.T) {
	kept := map[string]*ast.Builtin{}
	for _, b := range capabilities().Builtins {
		kept[b.Name] = b
		if b.Nondeterministic {
			t.Errorf("%s is not deterministic", b.Name)
		}
	}
	for _, name := range allowedBuiltins {
		if kept[name] == nil {
			t.Errorf("OPA has no function %s", name)
		}
	}
	for name := range metered {
		if kept[name] == nil {
			t.Errorf("%s is metered and not allowed", name)
		}
	}
	if net := capabilities().AllowNet; net == nil || len(net) > 0 {
		t.Errorf("hosts %v", net)
	}
}
