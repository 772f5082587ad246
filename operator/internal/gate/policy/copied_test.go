package policy

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// doubled has d30 be an object in which two fields share each value, thirty levels deep.
func doubled() string {
	var b strings.Builder
	b.WriteString("d0 := {\"x\": 1}\n")
	for i := range 30 {
		fmt.Fprintf(&b, "d%d := {k: d%d | some k in [\"a\", \"b\"]}\n", i+1, i)
	}
	return b.String()
}

// Functions that copy what is deep in their arguments are charged for that, and not for the
// few elements at the top.
func TestMetered_BoundsWhatFunctionsCopyDeepDown(t *testing.T) {
	const (
		wide  = "w := {sprintf(\"%d\", [i]): i | some i in numbers.range(1, 10000)}\no := {\"a\": {\"b\": w}}\n"
		often = "some i in numbers.range(1, 500)"
	)
	kept := func(what string) string {
		return wide + "deny contains \"reached\" if count([" + what + " | " + often + "]) > 0"
	}
	for name, rego := range map[string]string{
		"escapes":         `deny contains "reached" if count(` + strings.Repeat("glob.quote_meta(", 40) + `"*"` + strings.Repeat(")", 40) + `) > 0`,
		"indexes":         "s := concat(\"\", [\"a\" | some i in numbers.range(1, 100000)])\ndeny contains \"reached\" if count([indexof_n(s, \"a\") | " + often + "]) > 0",
		"overlapping":     "s := concat(\"\", [\"a\" | some i in numbers.range(1, 100000)])\nt := substring(s, 0, 50000)\ndeny contains \"reached\" if count([indexof_n(s, t) | " + often + "]) > 0",
		"parts of a text": "s := concat(\"\", [\"é\" | some i in numbers.range(1, 100000)])\ndeny contains \"reached\" if count([substring(s, i, -1) | " + often + "]) > 0",
		"reachable":       "g := {sprintf(\"%d\", [i]): [sprintf(\"%d\", [i + 1])] | some i in numbers.range(1, 5000)}\ndeny contains \"reached\" if count([graph.reachable(g, {\"1\"}) | " + often + "]) > 0",
		"parsed":          "s := concat(\"\", array.concat([\"[[\"], array.concat([\"[],\" | some i in numbers.range(1, 100000)], [\"[]]]\"])))\ndeny contains \"reached\" if count([json.unmarshal(s) | " + often + "]) > 0",
		"common":          "a := {i | some i in numbers.range(1, 5000)}\ndeny contains \"reached\" if count([b | " + often + "; b := a & a]) > 0",
		"parts of a URI":  "s := concat(\"\", array.concat([\"http://a/\"], [\"%41\" | some i in numbers.range(1, 50000)]))\ndeny contains \"reached\" if count([uri.parse(s) | " + often + "]) > 0",
		"removed":         kept(`json.remove(o, [sprintf("a/b/%d", [i])])`),
		"removed by keys": kept(`json.remove(o, [["a", "b", sprintf("%d", [i])]])`),
		"removed in a list": "l := [[j | some j in numbers.range(1, 10000)]]\n" +
			`deny contains "reached" if count([json.remove({"l": l}, [sprintf("l/0/%d", [i])]) | ` + often + `]) > 0`,
		"filtered":         wide + "p := [sprintf(\"a/b/%d\", [i]) | some i in numbers.range(1, 9000)]\ndeny contains \"reached\" if count([json.filter(o, p) | " + often + "]) > 0",
		"patched":          kept(`json.patch(o, [{"op": "add", "path": "/a/b/1", "value": i}])`),
		"put in and moved": kept(`json.patch({}, [{"op": "add", "path": "/n", "value": o}, {"op": "add", "path": "/n/a/b/1", "value": i}])`),
		"united":           kept(`object.union(o, {"a": {"b": {"z": i}}})`),
		"united many":      kept(`object.union_n([o, {"a": {"z": i}}])`),
		"shared, united":   doubled() + "e := json.patch(d30, [])\nr := object.union(d30, {k: d29 | some k in [\"a\", \"b\", \"c\"]})\ndeny contains \"reached\" if count(object.union_n([d30, {\"x\": 1}])) > 0",
	} {
		t.Run(name, func(t *testing.T) {
			check := New()
			check.deadline = time.Minute
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found := check.Evaluate(context.Background(), goodInput(house("package main\n"+rego)))
			runtime.ReadMemStats(&after)
			if len(found.Undecided) != 1 || !strings.Contains(found.Undecided[0].Message, "limits.PolicyBuiltinBytes") {
				t.Errorf("got %s", show(found))
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 192 {
				t.Errorf("%d MiB were allocated", made)
			}
		})
	}
}

// What policies do with manifests is far below.
func TestMetered_LetsPoliciesPatchManifests(t *testing.T) {
	rego := `package main
each := numbers.range(1, 300)
deny contains "reached" if {
	every i in each {
		some child in input.children
		patched := json.patch(child, [{"op": "add", "path": "/metadata/labels/x", "value": sprintf("%d", [i])}])
		patched.metadata.labels.x == sprintf("%d", [i])
		removed := json.remove(patched, ["/metadata/labels/x", "/spec/template/metadata"])
		not removed.metadata.labels.x
		json.unmarshal(json.marshal(child)).kind == child.kind
		json.filter(patched, ["/metadata/labels/x"]).metadata.labels.x == sprintf("%d", [i])
		object.union(child, {"metadata": {"labels": {"y": i}}}).metadata.labels.y == i
		object.union_n([child, {"metadata": {"labels": {"y": i}}}, {"z": 1}]).metadata.labels.y == i
		substring(sprintf("é%d", [i]), 1, -1) == sprintf("%d", [i])
		count(indexof_n(child.metadata.name, "r")) > 0
		glob.match(concat("", [glob.quote_meta(child.metadata.name), "*"]), [], child.metadata.name)
	}
}
`
	if found := New().Evaluate(context.Background(), goodInput(house(rego))); len(found.Deny) != 1 || len(found.Undecided) > 0 {
		t.Errorf("got %s", show(found))
	}
}

// walk gives a path for each part of a value, so that all of them have its depth squared.
func TestMetered_RefusesParsedValuesOfGreatDepth(t *testing.T) {
	nested := func(what string, deep int) string {
		return fmt.Sprintf("package main\nv := %s\ndeny contains \"reached\" if count([p | walk(v, [p, _])]) > 0", fmt.Sprintf(what, deep))
	}
	const (
		inJSON = `json.unmarshal(concat("", array.concat(["[" | some i in numbers.range(1, %[1]d)], ["]" | some i in numbers.range(1, %[1]d)])))`
		inYAML = `yaml.unmarshal(concat("", ["- " | some i in numbers.range(1, %[1]d)]))`
	)
	for _, what := range []string{inJSON, inYAML} {
		found := New().Evaluate(context.Background(), goodInput(house(nested(what, 9000))))
		if len(found.Undecided) != 1 || !strings.Contains(found.Undecided[0].Message, "limits.PolicyNesting") {
			t.Errorf("9000 deep: got %s", show(found))
		}
		if found := New().Evaluate(context.Background(), goodInput(house(nested(what, 100)))); len(found.Deny) != 1 || len(found.Undecided) > 0 {
			t.Errorf("100 deep: got %s", show(found))
		}
	}
}
