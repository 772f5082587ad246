package overlay

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
)

// transformed are kustomizations over a.yaml that put a value into what they build, by all ways
// that Kustomize has for that.
var transformed = []func(value string) map[string]any{
	func(value string) map[string]any { return map[string]any{"namePrefix": "x-"} },
	func(value string) map[string]any { return map[string]any{"commonLabels": map[string]any{"x": value}} },
	func(value string) map[string]any {
		return map[string]any{"commonAnnotations": map[string]any{"x": value}, "namespace": "shop"}
	},
	func(value string) map[string]any {
		return map[string]any{"images": []any{map[string]any{"name": "i", "newName": "registry.example.com/i", "newTag": value}}}
	},
	func(value string) map[string]any {
		patch, _ := json.Marshal([]any{map[string]any{"op": "add", "path": "/data", "value": map[string]any{"x": value, value: "x", "y": []any{value, 1.5, nil}}}})
		return map[string]any{"patches": []any{map[string]any{"target": map[string]any{"name": ".*"}, "patch": string(patch)}}}
	},
	func(value string) map[string]any {
		return map[string]any{"patches": []any{map[string]any{"target": map[string]any{"name": ".*"},
			"patch": "apiVersion: v1\nkind: Any\nmetadata: {name: any}\ndata:\n  x: " + value + "\n  k: null\n"}}}
	},
	func(value string) map[string]any {
		return map[string]any{"configMapGenerator": []any{map[string]any{"name": "g", "literals": []any{"x=" + value}}},
			"secretGenerator": []any{map[string]any{"name": "s", "literals": []any{"x=" + value}}}}
	},
	func(value string) map[string]any {
		return map[string]any{"commonLabels": map[string]any{"x": value}, "replacements": []any{map[string]any{
			"source": map[string]any{"name": "a", "fieldPath": "metadata.labels.x"},
			"targets": []any{map[string]any{"select": map[string]any{"name": "a"}, "fieldPaths": []any{"data.k", "data.new"},
				"options": map[string]any{"create": true}}},
		}}}
	},
}

// An object that is read without being written out is the one that comes of writing it out.
func FuzzDirectly(f *testing.F) {
	values := []string{"a", "1", "1.0", "true", "yes", "null", "~", "", " ", "a\nb", "a\nb\n", "\n a", "- a", "# a", "a: b", "'a", "\"a", "2026-11-30", "1_000",
		"0x1F", "010", "1e3", "|", ">", "&a", "*a", "!a", "@a", "%a", "\u00e9", "\u2028", "\t", "<<", "=", "12345678901234567890"}
	for _, name := range slices.Sorted(maps.Keys(resourceFiles)) {
		for way := range transformed {
			f.Add(resourceFiles[name].text, "a", byte(way))
		}
	}
	for _, value := range values {
		for way := range transformed {
			f.Add(aMap, value, byte(way))
		}
		f.Add(aPod, value, byte(3))
		f.Add("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: "+value+"\n  l: ["+value+", "+value+"]\n", "a", byte(0))
	}
	f.Fuzz(func(t *testing.T, text, value string, way byte) {
		settings := transformed[int(way)%len(transformed)](value)
		settings["resources"] = []any{"a.yaml"}
		kustomization, err := yaml.Marshal(settings)
		if err != nil || kustomize.CheckAliases([]byte(text)) != nil {
			return
		}
		fsys := filesys.MakeFsInMemory()
		for name, content := range map[string]string{"/kustomization.yaml": string(kustomization), "/a.yaml": text} {
			if err := fsys.WriteFile(name, []byte(content)); err != nil {
				t.Fatal(err)
			}
		}
		built, err := kustomize.Build(fsys, "/", nil)
		if err != nil {
			return
		}
		for _, r := range built.Resources() {
			want, failed := contentOf(r)
			got, err := directly(r)
			if (err != nil) != (failed != nil) {
				t.Fatalf("error %v, and written out: %v", err, failed)
			}
			if err == nil && !reflect.DeepEqual(got, want) {
				t.Fatalf("%s\nis %#v, and written out %#v", r.MustYaml(), got, want)
			}
		}
	})
}
