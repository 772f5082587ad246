package main

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// text is what a catalog shows. It names what has to be done first.
const text = `Sluice is for teams who deliver through Git. You commit a Workload; one gate gives the same verdict in the pull
request (sluice check), at admission and on every reconcile: policies in Rego over the Workload and all that is made of
it, image signatures and attestations, and evidence that a digest passed the environment before.

Before the first Workload, write a Gate for its namespace: a Workload that no Gate matches is denied. The documents are at
https://github.com/sluice-dev/sluice/tree/main/docs.

The webhooks fail closed: while no replica answers, no Workload can be created or changed, and what runs goes on running.`

// description is what does not come from the base.
func description(version string) map[string]any {
	modes := []any{}
	for _, mode := range []string{"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"} {
		modes = append(modes, map[string]any{"type": mode, "supported": mode == "AllNamespaces"})
	}
	return map[string]any{
		"displayName": "Sluice", "description": text, "version": version, "maturity": "alpha", "minKubeVersion": "1.30.0",
		"keywords":     []any{"gitops", "policy", "admission", "signatures", "promotion"},
		"links":        []any{map[string]any{"name": "Documents", "url": "https://github.com/sluice-dev/sluice"}},
		"maintainers":  []any{map[string]any{"name": "sluice-dev", "email": "maintainers@sluice.dev"}},
		"provider":     map[string]any{"name": "sluice-dev", "url": "https://github.com/sluice-dev"},
		"icon":         []any{map[string]any{"base64data": icon, "mediatype": "image/svg+xml"}},
		"installModes": modes,
	}
}

// icon is a gate between two walls, as SVG in base64.
const icon = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMCAxNiAxNiI+PHBhdGggZD0iTTEgMWgydjE0SDF6TTEzIDFoMnYxNGgt" +
	"MnoiIGZpbGw9IiM0NDUiLz48cGF0aCBkPSJNNCAyaDh2NUg0eiIgZmlsbD0iIzI3YyIvPjxwYXRoIGQ9Ik00IDEwaDh2Mkg0ek00IDEzaDh2Mkg0eiIgZmlsbD0i" +
	"IzljZSIvPjwvc3ZnPg=="

// described are the fields right below spec or status, with the first sentence of the
// schema's own text.
func described(version map[string]any, part string) []any {
	fields, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", part, "properties")
	var out []any
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		about, _, _ := unstructured.NestedString(fields[name].(map[string]any), "description")
		about, _, _ = strings.Cut(strings.ReplaceAll(about, "\n", " "), ". ")
		d := map[string]any{"path": name, "displayName": title(name), "description": strings.TrimSuffix(about, ".")}
		if name == "conditions" {
			d["x-descriptors"] = []any{"urn:alm:descriptor:io.kubernetes.conditions"}
		}
		out = append(out, d)
	}
	return out
}

// title makes "Image Pull Secrets" of imagePullSecrets.
func title(field string) string {
	var out strings.Builder
	for i, r := range field {
		switch {
		case i == 0:
			r = unicode.ToUpper(r)
		case unicode.IsUpper(r):
			out.WriteByte(' ')
		}
		out.WriteRune(r)
	}
	return out.String()
}
