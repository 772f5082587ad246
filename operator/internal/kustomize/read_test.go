package kustomize_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resource"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
)

// read is what objects of a file are, in their words, or what is wrong with it.
func read(t *testing.T, objects []*resource.Resource, err error) string {
	t.Helper()
	if err != nil {
		return "error: " + err.Error()
	}
	var out []string
	for _, o := range objects {
		text, err := o.RNode.String()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text)
	}
	return strings.Join(out, "---\n")
}

func TestRead_GivesWhatKustomizeGives(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	for title, text := range map[string]string{
		"an object":                   object,
		"two, and an empty document":  object + "---\n# nothing\n---\n" + object,
		"lines as Windows ends them":  strings.ReplaceAll(object, "\n", "\r\n"),
		"an anchor and its alias":     object + "data:\n  a: &a x\n  b: *a\n",
		"a merge key":                 object + "data:\n  <<: {a: b}\n",
		"a merge key by its tag":      object + "data:\n  !!merge x: {a: b}\n",
		"a merge key by its long tag": object + "data:\n  !<tag:yaml.org,2002:merge> x: {a: b}\n",
		"a merge key in quotes":       object + "data:\n  \"\\x3c<\": {a: b}\n  c: d\n",
		"a key that is null":          object + "data:\n  ~: x\n",
		"a key that is a number":      object + "data:\n  1: x\n",
		"a key that stands twice":     object + "data:\n  a: x\n  a: y\n",
		"a key that is a list":        object + "data:\n  ? [a]\n  : x\n",
		"a list of objects":           "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n",
		"a list of one kind":          "apiVersion: v1\nkind: ConfigMapList\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n",
		"an object for tools alone":   object + "  annotations:\n    config.kubernetes.io/local-config: \"true\"\n",
		"a document that is a list":   "- null\n",
		"an object without a name":    "apiVersion: v1\nkind: ConfigMap\n",
		"no YAML":                     "a: b: c\n",
	} {
		t.Run(title, func(t *testing.T) {
			objects, err := kustomize.Read([]byte(text))
			got := read(t, objects, err)
			objects, err = provider.NewDefaultDepProvider().GetResourceFactory().SliceFromBytes([]byte(text))
			if want := read(t, objects, err); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
