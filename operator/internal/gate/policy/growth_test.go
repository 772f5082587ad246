package policy

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// chained is f called forty times over, each with the result of the one before.
func chained(value string) string {
	return strings.Repeat("f(", 40) + value + strings.Repeat(")", 40)
}

// manyArguments are those of f, which makes a value of them, in a chain over all.
func manyArguments(n int, value string) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("a%d", i))
	}
	body := "y0 := input.object"
	for i := range 20 {
		body += fmt.Sprintf("; y%d := f(%s)", i+1, strings.Join(slices.Repeat([]string{fmt.Sprintf("y%d", i)}, n), ", "))
	}
	return "package main\nf(" + strings.Join(names, ", ") + ") := " + value + "\ndeny contains \"reached\" if { " + body + "; y20 != null }"
}

// twice is a module in which f writes its argument out twice, and a rule that says so.
func twice(rules ...string) string {
	return "package main\n\nf(x) := [x, x]\n\n" + strings.Join(rules, "\n\n") + "\n"
}

// A function's result is put together anew by each that takes it on, in one go that nothing
// can interrupt: a count of the steps does not see it.
func TestCheckValues_RefusesWhatFunctionsDouble(t *testing.T) {
	reached := `deny contains "reached" if ` + chained("input.object") + " != null"
	ladder := func(step string) string {
		var b strings.Builder
		for i := range 40 {
			fmt.Fprintf(&b, "f%d(x) := %s\n", i+1, strings.ReplaceAll(step, "F", fmt.Sprintf("f%d", i)))
		}
		return b.String()
	}
	for name, rego := range map[string]string{
		"a list":                       twice(reached),
		"an object":                    "package main\nf(x) := {\"a\": x, \"b\": x}\n" + reached,
		"a set":                        "package main\nf(x) := {{\"a\": x}, {\"b\": x}}\n" + reached,
		"a key":                        "package main\nf(x) := {x: x}\n" + reached,
		"the last of many arguments":   manyArguments(20, "[a19, a19]"),
		"some of many arguments":       manyArguments(3000, "[a17, a18]"),
		"by another name":              "package main\nf(x) := z if { y := x; w = y; z := [w, w] }\n" + reached,
		"taken apart":                  "package main\nf(x) := [z, z] if { [y, _] = [x, 1]; z := y }\n" + reached,
		"a field":                      "package main\nf(x) := {\"a\": [x.a, x.a]}\n" + strings.Replace(reached, "input.object", `{"a": input.object}`, 1),
		"one field twice":              "package main\nf(x) := {\"a\": x.a, \"b\": x.a, \"c\": x.c}\n" + strings.Replace(reached, "input.object", `{"a": input.object, "c": 1}`, 1),
		"a field and the whole":        "package main\nf(x) := {\"a\": x.a, \"b\": x}\n" + strings.Replace(reached, "input.object", `{"a": input.object}`, 1),
		"fields by two names":          "package main\nf(x) := {\"a\": x.a, \"b\": y.a} if { y := x }\n" + strings.Replace(reached, "input.object", `{"a": input.object}`, 1),
		"fields by a variable":         "package main\nf(x) := {\"a\": x[i], \"b\": x[j]} if { i := \"a\"; j := lower(\"A\") }\n" + strings.Replace(reached, "input.object", `{"a": input.object}`, 1),
		"fields of fields":             "package main\nf(x) := {\"a\": {\"l\": x.a.l, \"r\": x.a.r, \"m\": [x.a]}}\n" + strings.Replace(reached, "input.object", `{"a": {"l": input.object, "r": 1}}`, 1),
		"parts of a list":              "package main\nf([a, _]) := [[a, a], 1]\n" + strings.Replace(reached, "input.object", "[input.object, 1]", 1),
		"in its body":                  "package main\nf(x) := z if { y := [x, 1]; z := {\"a\": y, \"b\": y} }\n" + reached,
		"otherwise":                    "package main\nf(x) := x if { x == 1 } else := [x, x]\n" + reached,
		"one of its rules":             "package main\nf(x) := 1 if { x == 1 }\nf(x) := [x, x] if { x != 1 }\n" + reached,
		"each the next":                "package main\nf0(x) := [x, x]\n" + ladder("F([x, x])") + `deny contains "reached" if f40(input.object) != null`,
		"two of each":                  "package main\nf0(x) := [x, x]\n" + ladder("F(F(x))") + `deny contains "reached" if f5(input.object) != null`,
		"within, and not returned":     twice("g(x) := true if { "+chained("x")+" != null }", `deny contains "reached" if g(input.object)`),
		"by the argument":              "package main\ng(x) := count([" + strings.Repeat("x, ", 1000) + "1])\nh(x) := [" + strings.Repeat("x, ", 200) + "1]\n" + `deny contains "reached" if g(h(input.object)) > 0`,
		"in a message":                 twice("deny contains {\"msg\": \"m\", \"more\": " + chained("input.object") + "} if true"),
		"in a comprehension":           twice("deny contains \"reached\" if { count([" + chained("x") + " | some x in [input.object]]) > 0 }"),
		"in a condition of one":        twice("deny contains \"reached\" if { count([x | some x in [input.object]; " + chained("x") + " != null]) > 0 }"),
		"in a rule besides":            twice("big := "+chained("input.object"), "deny contains \"reached\" if big != null"),
		"each element":                 "package main\nh(x) := [" + strings.Repeat("x, ", 999) + "1]\ndeny contains \"reached\" if { count([[" + strings.Repeat("y, ", 999) + "1] | y := h(input.object)]) > 0 }",
		"in every":                     twice("deny contains \"reached\" if { every x in [input.object] { " + chained("x") + " != null } }"),
		"in place of the input":        twice("big := input", "deny contains \"reached\" if { big != null with input as "+chained("input.object")+" }"),
		"in a text":                    twice("deny contains $\"{" + chained("input.object") + "}\" if true"),
		"in place of another function": "package main\nf(x) := x\ng(x) := [x, x]\n" + strings.Replace(reached, " != null", " != null with data.main.f as data.main.g", 1),
		"in place of a builtin":        "package main\ng(x) := [x, x]\n" + strings.ReplaceAll(strings.Replace(reached, " != null", " != null with abs as data.main.g", 1), "f(", "abs("),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found := New().Evaluate(context.Background(), goodInput(house(rego)))
			runtime.ReadMemStats(&after)
			if len(found.Undecided) != 1 || !strings.Contains(found.Undecided[0].Message, "limits.PolicyValueParts") || !strings.Contains(found.Undecided[0].Message, ".rego:") {
				t.Errorf("got %s", show(found))
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 64 {
				t.Errorf("%d MiB were allocated", made)
			}
		})
	}
}

// What is there already is shared, however often it is written: nothing of it is refused.
func TestCheckValues_TakesWhatIsShared(t *testing.T) {
	var rules strings.Builder
	for i := range 17 { // OPA's own types double too, and take it seconds for twenty
		fmt.Fprintf(&rules, "r%d := [r%d, r%d]\n", i+1, i, i)
	}
	for name, rego := range map[string]string{
		"rules":          "package main\nr0 := input.object\n" + rules.String() + `deny contains "reached" if count(r17) == 2`,
		"built-in":       "package main\nf(x) := array.concat([x], [x])\n" + `deny contains "reached" if count(` + chained("input.object") + `) == 2`,
		"comprehensions": "package main\nf(x) := [y | some y in [x, x]]\n" + `deny contains "reached" if count(` + chained("input.object") + `) == 2`,
		"taken apart":    "package main\nf(x) := [a, b] if { [a, b] := [x[0], 1] }\n" + strings.Replace(`deny contains "reached" if count(`+chained("input.object")+`) == 2`, "input.object", "[1, 1]", 1),
		"handed on":      "package main\nf(x) := x\n" + `deny contains "reached" if ` + chained("input.object") + " != null",
		"four fields forty times over": "package main\nf(x) := {\"a\": x.a, \"b\": x.b, \"c\": x.c, \"d\": x.d.e}\n" +
			"deny contains \"reached\" if f(" + strings.Repeat("g(", 40) + "input" + strings.Repeat(")", 40) + ").a == 1\n" +
			"g(x) := {\"a\": y.a, \"b\": y.b, \"c\": y.c, \"d\": {\"e\": 1}} if { y := object.union(x, {\"a\": 1, \"b\": 1, \"c\": 1}) }",
		"records handed on": "package main\nf(x) := {\"a\": x.a, \"b\": x.b, \"c\": x.c, \"d\": x.d}\n" +
			`deny contains "reached" if ` + chained(`{"a": 1, "b": 2, "c": input, "d": 4}`) + ".a == 1",
		"ten fields thrice": "package main\nf(x) := {\"a\": x.a, \"b\": x.b, \"c\": x.c, \"d\": x.d, \"e\": x.e, \"f\": x.f, \"g\": x.g, \"h\": x.h, \"i\": x.i, \"j\": x.j}\n" +
			`deny contains "reached" if f(f(f({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1, "h": 1, "i": 1, "j": 1}))).a == 1`,
	} {
		t.Run(name, func(t *testing.T) {
			if found := New().Evaluate(context.Background(), goodInput(house(rego))); len(found.Deny) != 1 || len(found.Undecided) > 0 {
				t.Errorf("got %s", show(found))
			}
		})
	}
}

// A pattern as wide as a module may be is counted once, and not once for each variable.
func TestCheckValues_CountsAWidePatternOnce(t *testing.T) {
	const n = 40_000
	var names, values strings.Builder
	for i := range n {
		fmt.Fprintf(&names, "v%d, ", i)
		values.WriteString("x, ")
	}
	body := fmt.Sprintf("x := input.object; y := [%[2]s]; [%[1]s] = y; v0 != null", strings.TrimSuffix(names.String(), ", "), strings.TrimSuffix(values.String(), ", "))
	set := house("package main\ndeny contains \"reached\" if { " + body + " }")
	modules := map[string]*ast.Module{}
	if err := parse(set, modules); err != nil {
		t.Fatal(err)
	}
	compiler := ast.NewCompiler().WithCapabilities(capabilities()).WithDefaultRegoVersion(ast.RegoV1)
	if compiler.Compile(modules); compiler.Failed() {
		t.Fatal(compiler.Errors)
	}
	start := time.Now()
	if err := checkValues(compiler); err == nil {
		t.Error("each variable may be all of the value: as many parts as there are, squared")
	}
	meterValues(compiler)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it takes %s", took)
	}
}

// A refusal names the same place in every run.
func TestCheckValues_NamesTheSamePlaceEachTime(t *testing.T) {
	rego := twice(`deny contains "a" if `+chained("input.object")+" != null", `deny contains "b" if `+chained("input.object")+" != null")
	said := map[string]bool{}
	for range 20 {
		found := New().Evaluate(context.Background(), goodInput(house(rego)))
		if len(found.Undecided) != 1 {
			t.Fatal(show(found))
		}
		said[found.Undecided[0].Message] = true
	}
	if len(said) != 1 {
		t.Errorf("said is %v", said)
	}
}

// What a comprehension, a function or a rule keeps is bounded in bytes, and not only by how
// many steps it takes.
func TestMeterValues_BoundsWhatIsKept(t *testing.T) {
	wide := func(n int) string { return "[" + strings.Repeat("a, ", n) + "b]" }
	pairs := func(what string) string {
		return "package main\ndeny contains \"reached\" if { n := numbers.range(1, 900); count(" + what + ") == 0 }"
	}
	for name, rego := range map[string]string{
		"elements of a list": pairs("[" + wide(10) + " | some a in numbers.range(1, 900); some b in n]"),
		"larger ones":        pairs("[" + wide(1000) + " | some a in numbers.range(1, 900); some b in n]"),
		"of a set":           pairs("{" + wide(100) + " | some a in numbers.range(1, 900); some b in n}"),
		"of an object":       pairs("{sprintf(\"%d %d\", [a, b]): " + wide(1000) + " | some a in numbers.range(1, 900); some b in n}"),
		"with constants":     pairs("[[" + strings.Repeat("1, ", 1000) + "a, b] | some a in numbers.range(1, 900); some b in n]"),
		"by a name":          pairs("[y | some a in numbers.range(1, 900); some b in n; y := " + wide(1000) + "]"),
		"results of a function": "package main\nf(a, b) := " + wide(1000) + "\n" +
			`deny contains "reached" if { n := numbers.range(1, 900); count([1 | some a in n; some b in n; count(f(a, b)) == 0]) == 1 }`,
		"values of a rule": "package main\nr contains " + wide(1000) + " if { some a in numbers.range(1, 900); some b in numbers.range(1, 900) }\n" + `deny contains "reached" if count(r) == 0`,
	} {
		t.Run(name, func(t *testing.T) {
			check := New()
			check.deadline = time.Hour
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found := check.Evaluate(context.Background(), goodInput(house(rego)))
			runtime.ReadMemStats(&after)
			if len(found.Undecided) != 1 || !strings.Contains(found.Undecided[0].Message, "limits.PolicyBuiltinBytes") {
				t.Errorf("got %s", show(found))
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 128 {
				t.Errorf("%d MiB were allocated", made)
			}
		})
	}
}
