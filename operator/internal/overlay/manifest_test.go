package overlay_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

func TestRead_NamesFileAndLineOfABrokenManifest(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    []string
	}{
		"broken in the first document": {"a: b\n  c: d\n", []string{"x.yaml:2: not valid YAML"}},
		"broken in a second document, after CRLF lines and a comment": {
			"# first\r\napiVersion: v1\r\nkind: ConfigMap\r\n--- # next\r\n# and\r\nkind: [\r\n  a: }\r\n", []string{"x.yaml:6: not valid YAML"}},
		"a key twice": {workload + "---\nkind: ConfigMap\napiVersion: v1\ndata:\n  a: b\n  c: d\n  a: e\n",
			[]string{"x.yaml:11:", `"a" is there already on line 9`}},
		"a key twice, once quoted":                {"apiVersion: v1\nkind: ConfigMap\n\"kind\": Secret\n", []string{"x.yaml:3:", `"kind"`}},
		"a key twice, once as a word for true":    {"apiVersion: v1\nkind: ConfigMap\ndata:\n  \"true\": a\n  yes: b\n", []string{"x.yaml:5:", `"yes" is there already on line 4`}},
		"a key twice, as two forms of one number": {"apiVersion: v1\nkind: ConfigMap\ndata: {-1: a, -1.0: b}\n", []string{"x.yaml:3:", `"-1.0" is there already on line 3`}},
		"a second document that most readers miss": {"apiVersion: v1\nkind: ConfigMap\n--- {apiVersion: sluice.dev/v1beta1, kind: Workload}\n",
			[]string{"x.yaml:3:", "second document"}},
		"a second document after an end mark":  {"apiVersion: v1\nkind: ConfigMap\n...\napiVersion: v1\nkind: Secret\n", []string{"x.yaml:4: not valid YAML"}},
		"a line that is out of the block":      {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n data: {}\n", []string{"x.yaml:5: not valid YAML: did not find expected key"}},
		"one deep in a long block":             {"apiVersion: v1\nkind: ConfigMap\nspec:\n  a:\n    b: 1\n    c: 2\n    d: 3\n   e: 4\nf: 5\n", []string{"x.yaml:8: not valid YAML"}},
		"a tab":                                {"kind: a\nspec:\n  image: a\n\treplicas: 3\n", []string{"x.yaml:4: not valid YAML"}},
		"a brace that is not closed":           {"kind: a\nmetadata: {name: a\nspec:\n  image: a\n", []string{"x.yaml:2: not valid YAML"}},
		"a quote that is not closed":           {"kind: a\nlist: [a,\n  b]\nspec:\n  image: \"a\n  replicas: 3\n", []string{"x.yaml:5: not valid YAML"}},
		"a name of nothing":                    {"kind: a\nb: 1\nc: *nothing\n", []string{"x.yaml:3: not valid YAML"}},
		"one at the end of what is too long":   {"kind: a\nb:\n" + strings.Repeat("  - a line\n", 100_000) + " c: 1\n" + strings.Repeat("d: 1\n", 100), []string{"not valid YAML"}},
		"no kind":                              {"\n# nothing\napiVersion: v1\n", []string{"x.yaml:3:", "apiVersion and kind"}},
		"no apiVersion":                        {"kind: Workload\n", []string{"x.yaml:1:", "apiVersion and kind"}},
		"a list of lines":                      {"- a\n", []string{"x.yaml:1:", "apiVersion and kind"}},
		"a plain text":                         {"hello\n", []string{"x.yaml:1:", "apiVersion and kind"}},
		"a list with an item that has no kind": {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1}]\n", []string{"x.yaml:1:", "apiVersion and kind"}},
		"a list with an item that is a text":   {"apiVersion: v1\nkind: List\nitems: [a]\n", []string{"x.yaml:1:"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, write(t, map[string]string{"x.yaml": c.content}), ".")
			mustFail(t, err, c.want...)
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestRead_NamesFileAndLineOfABrokenResource(t *testing.T) {
	for name, more := range map[string]string{"a plain list": "", "what Kustomize has to build": "namePrefix: a-\n"} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, write(t, map[string]string{
				"o/kustomization.yaml":    "resources: [../base]\n",
				"base/kustomization.yaml": "resources: [good.yaml, x.yaml]\n" + more,
				"base/good.yaml":          workload,
				"base/x.yaml":             "apiVersion: v1\nkind: ConfigMap\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n data: {}\n",
			}), "o")
			mustFail(t, err, "base/x.yaml:8: not valid YAML: did not find expected key")
		})
	}
}

func TestRead_TakesMergeKeysThatAllReadersReadAlike(t *testing.T) {
	const merged = `apiVersion: v1
kind: ConfigMap
metadata: {name: a}
x: &x {name: one, image: a}
list: [*x, {<<: *x, name: two}, {<<: [*x, {image: b, more: c}], name: three}]
`
	objects, err := overlay.Read("", overlay.Stdin, strings.NewReader(merged))
	if err != nil {
		t.Fatal(err)
	}
	one := map[string]any{"name": "one", "image": "a"}
	want := []any{one, map[string]any{"name": "two", "image": "a"}, map[string]any{"name": "three", "image": "a", "more": "c"}}
	if got := objects[0].Object["list"]; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, c := range map[string][2]string{
		"a merge after the key":      {"{<<: *x, name: two}", "{name: two, <<: *x}"},
		"two merges":                 {"{<<: *x, name: two}", "{<<: *x, <<: *x, name: two}"},
		"a key twice":                {"{<<: *x, name: two}", "{<<: *x, name: two, name: three}"},
		"two words for true":         {"{<<: *x, name: two}", "{<<: *x, name: two, yes: a, on: b}"},
		"two forms of one number":    {"{<<: *x, name: two}", "{<<: *x, name: two, 0x1: a, 1: b}"},
		"a number as two keys":       {"{<<: *x, name: two}", "{<<: *x, name: two, -1: a, -1.0: b}"},
		"a key twice, once coded":    {"{<<: *x, name: two}", "{<<: *x, name: two, env: a, !!binary ZW52: b}"},
		"a merge by its tag alone":   {"{<<: *x, name: two}", "{<<: *x, name: two, !!merge more: {image: b}}"},
		"a merge that is none":       {"{<<: *x, name: two}", "{\"<<\": *x, name: two}\ny: {<<: *x, name: two}"},
		"an alias that holds itself": {"{<<: *x, name: two}", "&z {<<: *z, name: two}"},
	} {
		if _, err := overlay.Read("", overlay.Stdin, strings.NewReader(strings.Replace(merged, c[0], c[1], 1))); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestRead_ExpandsListsAndOnlyLists(t *testing.T) {
	item := strings.ReplaceAll("{apiVersion: sluice.dev/v1beta1, kind: Workload, metadata: {name: NAME}}", "\n", "")
	list := func(items ...string) string {
		return "{apiVersion: v1, kind: List, items: [" + strings.Join(items, ", ") + "]}"
	}
	for name, c := range map[string]struct {
		content string
		want    string
	}{
		"a list":                          {list(strings.Replace(item, "NAME", "a", 1), strings.Replace(item, "NAME", "b", 1)), "Workload/a Workload/b"},
		"a list in a list":                {list(list(strings.Replace(item, "NAME", "a", 1))), "Workload/a"},
		"an empty list":                   {list(), ""},
		"a Workload with items":           {"{apiVersion: sluice.dev/v1beta1, kind: Workload, metadata: {name: a}, items: []}", "Workload/a"},
		"documents, comments and nothing": {"# a\n---\n---\n" + strings.Replace(item, "NAME", "a", 1) + "\n---\n", "Workload/a"},
		"JSON":                            {`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}`, "ConfigMap/a"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := overlay.Read("", overlay.Stdin, strings.NewReader(c.content))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.GetKind()+"/"+o.GetName())
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}
