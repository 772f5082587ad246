package overlay

import (
	"strings"
	"testing"
)

// What is built in parts is built as a whole wherever two objects of different parts have to do
// with each other.
func TestInParts_IsWhatKustomizeBuildsWhereObjectsMeet(t *testing.T) {
	defer func(n int) { partFiles = n }(partFiles)
	partFiles = 1
	named := func(name, more string) string {
		return "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: " + name + more + "}\nspec: {image: i}\n"
	}
	const (
		marked   = ", labels: {x: '1'}"
		toC      = "- target: {labelSelector: x=1}\n  patch: '- {op: replace, path: /metadata/name, value: c}'\n"
		toB      = "patches: [{target: {labelSelector: x=1}, patch: '- {op: replace, path: /metadata/name, value: b}'}]\n"
		settings = "apiVersion: sluice.dev/v1\nkind: ConfigMap\nmetadata: {name: a}\n"
		user     = "apiVersion: sluice.dev/v1\nkind: Deployment\nmetadata: {name: b}\nspec: {template: {spec: {volumes: [{name: v, configMap: {name: a}}]}}}\n"
	)
	// below has a and b in a folder each, and changes one or both of them above.
	below := func(above, a, b string) map[string]string {
		return map[string]string{"kustomization.yaml": "resources: [d, e]\n" + above, "d/kustomization.yaml": "resources: [a.yaml]\n" + a, "d/a.yaml": named("a", ", namespace: z"+marked),
			"e/kustomization.yaml": "resources: [b.yaml]\n" + b, "e/b.yaml": named("b", ", namespace: z")}
	}
	beside := func(changes, a, b string) map[string]string {
		return map[string]string{"kustomization.yaml": "resources: [a.yaml, b.yaml]\n" + changes, "a.yaml": a, "b.yaml": b}
	}
	// prefixed has a in one folder, with what its kustomization puts around it, and another of a
	// name beside it; and both under a prefix.
	prefixed := func(around, other string) map[string]string {
		files := below("namePrefix: x-\n", around, "")
		files["e/b.yaml"] = named(other, ", namespace: z")
		return files
	}
	moved := below("patches:\n"+toC, "namespace: shop\n", "namespace: shop\n")
	moved["e/b.yaml"] = named("a", ", namespace: shop")
	left := below("namespace: far\n", "namespace: shop\npatches: [{target: {kind: Workload}, patch: '{apiVersion: v1, kind: Any, metadata: {name: any, annotations: {internal.config.kubernetes.io/helm-generated: \"true\"}}}'}]\n", "namespace: shop\n")
	left["d/a.yaml"], left["e/b.yaml"] = named("a", ", namespace: shop"), named("a", ", namespace: z")
	for name, files := range map[string]map[string]string{
		"of one name where folders meet":        below("patches:\n"+toC, toB, ""),
		"of one name by a path that is odd":     below("patches:\n"+toC, "patches: [{target: {labelSelector: x=1}, patch: '- {op: replace, path: x/metadata/name, value: b}'}]\n", ""),
		"of one name by a copy":                 below("patches:\n"+toC, "patches: [{target: {labelSelector: x=1}, patch: '- {op: add, path: /metadata/labels/n, value: b}'}, {target: {labelSelector: x=1}, patch: '- {op: copy, from: /metadata/labels/n, path: /metadata/name}'}]\n", ""),
		"of one name by a label":                below("patches:\n"+toC, "labels: [{pairs: {name: b}, fields: [{path: metadata}]}]\n", ""),
		"of one name by an annotation":          below("patches:\n"+toC, "patches: [{target: {kind: Workload}, patch: '{apiVersion: v1, kind: Any, metadata: {name: b, annotations: {internal.config.kubernetes.io/allowNameChange: enabled}}}'}]\n", ""),
		"of one name by merges alone":           below("patches: [{target: {labelSelector: x=1}, patch: '{apiVersion: v1, kind: Any, metadata: {name: c, annotations: {internal.config.kubernetes.io/allowNameChange: enabled}}}'}]\n", "patches: [{target: {kind: Workload}, patch: '{apiVersion: v1, kind: Any, metadata: {name: b, annotations: {internal.config.kubernetes.io/allowNameChange: enabled}}}'}]\n", ""),
		"of one name in one namespace":          moved,
		"of one name by a prefix":               prefixed("namePrefix: p-\n", "p-a"),
		"of one name by a suffix":               prefixed("nameSuffix: -s\n", "a-s"),
		"of one name by both, and a prefix":     prefixed("namePrefix: p-\nnameSuffix: -s\n", "p-a-s"),
		"of one name before it has a prefix":    prefixed("namePrefix: p-\n", "a"),
		"of a name that another had":            beside("namePrefix: p-\n", named("a", ""), named("p-a", "")),
		"a prefix that makes a number of it":    beside("namePrefix: '1'\n", named("'2'", ""), named("b", "")),
		"a prefix where patches look for names": beside("namePrefix: p-\npatches: [{target: {kind: Workload, name: p-a}, patch: '- {op: add, path: /spec/x, value: y}'}, {target: {kind: Workload, name: b}, patch: '- {op: add, path: /spec/x, value: z}'}]\n", named("a", ""), named("b", "")),
		"a prefix where a namespace is named":   beside("namePrefix: p-\nnamespace: far\n", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", named("b", ", namespace: shop")),
		"a prefix where another one refers":     beside("namePrefix: p-\n", settings, user),
		"of one name, and one is left there":    left,
		"of one name before a merge":            beside("patches:\n- target: {name: a}\n  patch: '- {op: replace, path: /metadata/name, value: b}'\n- target: {kind: Workload}\n  patch: '{apiVersion: v1, kind: Any, metadata: {name: any}, spec: {z: y}}'\n"+toC, named("a", marked), named("b", "")),
		"names that are a number and a text":    beside("labels: [{pairs: {x: z}}]\n", named("1", ""), named("'1'", "")),
		"names of files that are only listed":   beside("", named("1", ""), named("'1'", "")),
		"namespaces that are a number, a text":  beside("", named("a", ", namespace: 1"), named("a", ", namespace: '1'")),
		"a reference in a kind of another kind": beside("patches: [{target: {kind: ConfigMap}, patch: '- {op: replace, path: /metadata/name, value: c}'}]\n", settings, user),
		"a kustomization that is a patch": beside("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: k}\npatches: [{target: {kind: Workload}, path: kustomization.yaml}]\n",
			named("a", ""), named("b", "")),
	} {
		t.Run(name, func(t *testing.T) { isStock(t, files) })
	}
}

// What has more patches than files would be slower in parts: each part reads all of them.
func TestInParts_IsNotForPatchesThatOutweighTheFiles(t *testing.T) {
	defer func(n int) { partFiles = n }(partFiles)
	partFiles = 1
	patch := "- {target: {name: none}, patch: '- {op: add, path: /spec/x, value: y}'}\n"
	for name, c := range map[string]struct {
		patches string
		parts   bool
	}{
		"few":       {patch, true},
		"many":      {strings.Repeat(patch, 3), false},
		"large":     {"- {target: {name: none}, patch: '- {op: add, path: /spec/x, value: " + strings.Repeat("y", 500) + "}'}\n", false},
		"in a file": {"- {target: {name: none}, path: p.yaml}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, fresh := opened(t, map[string]string{"kustomization.yaml": "resources: [a.yaml, b.yaml]\npatches:\n" + c.patches, "a.yaml": workload("a"), "b.yaml": workload("b"),
				"p.yaml": "- {op: add, path: /spec/x, value: " + strings.Repeat("y", 500) + "}\n"}, "")
			if _, err := plain(fresh(), "."); (err == nil) != c.parts {
				t.Errorf("built in parts: %v, want %v: %v", err == nil, c.parts, err)
			}
		})
	}
}
