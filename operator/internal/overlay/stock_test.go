package overlay

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
)

const (
	aMap      = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"
	aPod      = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
	annotated = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {x: y}}\ndata: {k: v}\n"
	aList     = "apiVersion: v1\nkind: List\nitems:\n- " + "apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: l1}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: l2, annotations: {x: y}}\n"
	patchOfA  = "patches: [{target: {kind: ConfigMap, name: a}, patch: '"
	asPlugin  = "apiVersion: builtin\nkind: PatchJson6902Transformer\nmetadata: {name: t}\ntarget: {version: v1, kind: ConfigMap, name: a}\njsonOp: '"
)

var overlays = map[string]map[string]string{
	"a patch of annotations":                 {"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": annotated, "p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {x: null, z: w}}\n"},
	"a patch that takes annotations":         {"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": annotated, "p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: null}\n"},
	"a patch that replaces annotations":      {"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": annotated, "p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {$patch: replace, z: w}}\n"},
	"a patch that deletes annotations":       {"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": annotated, "p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {$patch: delete}}\n"},
	"add of annotations":                     {"kustomization.yaml": "resources: [a.yaml]\n" + patchOfA + "[{\"op\": \"add\", \"path\": \"/metadata/annotations\", \"value\": {\"z\": \"w\"}}]'}]\n", "a.yaml": annotated},
	"add of one where none is":               {"kustomization.yaml": "resources: [a.yaml]\n" + patchOfA + "[{\"op\": \"add\", \"path\": \"/metadata/annotations/z\", \"value\": \"w\"}]'}]\n", "a.yaml": aMap},
	"remove of annotations":                  {"kustomization.yaml": "resources: [a.yaml]\n" + patchOfA + "[{\"op\": \"remove\", \"path\": \"/metadata/annotations\"}]'}]\n", "a.yaml": annotated},
	"remove of annotations, none":            {"kustomization.yaml": "resources: [a.yaml]\n" + patchOfA + "[{\"op\": \"remove\", \"path\": \"/metadata/annotations\"}]'}]\n", "a.yaml": aMap},
	"test of one":                            {"kustomization.yaml": "resources: [a.yaml]\n" + patchOfA + "[{\"op\": \"test\", \"path\": \"/metadata/annotations/x\", \"value\": \"y\"}, {\"op\": \"add\", \"path\": \"/data/z\", \"value\": \"w\"}]'}]\n", "a.yaml": annotated},
	"copy of annotations":                    {"kustomization.yaml": "resources: [a.yaml]\n" + patchOfA + "[{\"op\": \"copy\", \"from\": \"/metadata/annotations\", \"path\": \"/metadata/labels\"}]'}]\n", "a.yaml": annotated},
	"move of annotations":                    {"kustomization.yaml": "resources: [a.yaml]\n" + patchOfA + "[{\"op\": \"move\", \"from\": \"/metadata/annotations\", \"path\": \"/data\"}]'}]\n", "a.yaml": annotated},
	"a test by a plugin":                     {"kustomization.yaml": "resources: [a.yaml]\ntransformers: [t.yaml]\n", "a.yaml": annotated, "t.yaml": asPlugin + "[{\"op\": \"test\", \"path\": \"/metadata/annotations\", \"value\": {\"x\": \"y\"}}, {\"op\": \"add\", \"path\": \"/data/z\", \"value\": \"w\"}]'\n"},
	"a copy by a plugin":                     {"kustomization.yaml": "resources: [a.yaml]\ntransformers: [t.yaml]\n", "a.yaml": annotated, "t.yaml": asPlugin + "[{\"op\": \"copy\", \"from\": \"/metadata/annotations\", \"path\": \"/metadata/labels\"}]'\n"},
	"an add by a plugin":                     {"kustomization.yaml": "resources: [a.yaml]\ntransformers: [t.yaml]\n", "a.yaml": aMap, "t.yaml": asPlugin + "[{\"op\": \"add\", \"path\": \"/metadata/annotations/x\", \"value\": \"y\"}]'\n"},
	"common annotations":                     {"kustomization.yaml": "resources: [a.yaml, p.yaml]\ncommonAnnotations: {c: d}\n", "a.yaml": aMap, "p.yaml": aPod},
	"a generator that merges":                {"kustomization.yaml": "resources: [b]\nconfigMapGenerator: [{name: a, behavior: merge, literals: [z=w], options: {annotations: {g: h}}}]\n", "b/kustomization.yaml": "resources: [a.yaml]\nnamePrefix: ''\n", "b/a.yaml": annotated},
	"a generator that replaces":              {"kustomization.yaml": "resources: [b]\nconfigMapGenerator: [{name: a, behavior: replace, literals: [z=w]}]\n", "b/kustomization.yaml": "configMapGenerator: [{name: a, literals: [x=y]}]\n"},
	"a replacement from an annotation":       {"kustomization.yaml": "resources: [a.yaml, p.yaml]\nreplacements: [{source: {kind: ConfigMap, fieldPath: metadata.annotations.x}, targets: [{select: {kind: Pod}, fieldPaths: [metadata.annotations.q], options: {create: true}}]}]\n", "a.yaml": annotated, "p.yaml": aPod},
	"a replacement from all annotations":     {"kustomization.yaml": "resources: [a.yaml, p.yaml]\nreplacements: [{source: {kind: ConfigMap, fieldPath: metadata.annotations}, targets: [{select: {kind: Pod}, fieldPaths: [metadata.labels], options: {create: true}}]}]\n", "a.yaml": annotated, "p.yaml": aPod},
	"a replacement from no annotations":      {"kustomization.yaml": "resources: [a.yaml, p.yaml]\nreplacements: [{source: {kind: ConfigMap, fieldPath: metadata.annotations}, targets: [{select: {kind: Pod}, fieldPaths: [metadata.labels], options: {create: true}}]}]\n", "a.yaml": aMap, "p.yaml": aPod},
	"a component":                            {"kustomization.yaml": "resources: [a.yaml]\ncomponents: [c]\n", "a.yaml": aMap, "c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [p.yaml]\nnamePrefix: x-\n", "c/p.yaml": aPod},
	"a folder of generators":                 {"kustomization.yaml": "resources: [a.yaml]\ngenerators: [g]\n", "a.yaml": aMap, "g/kustomization.yaml": "resources: [g.yaml]\n", "g/g.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\nliterals: [x=y]\n"},
	"a folder of transformers":               {"kustomization.yaml": "resources: [a.yaml]\ntransformers: [g]\n", "a.yaml": aMap, "g/kustomization.yaml": "resources: [g.yaml]\n", "g/g.yaml": "apiVersion: builtin\nkind: AnnotationsTransformer\nmetadata: {name: g}\nannotations: {x: y}\nfieldSpecs: [{path: metadata/annotations, create: true}]\n"},
	"a file that a generator puts in":        {"kustomization.yaml": "resources: [a.yaml]\nconfigMapGenerator: [{name: g, files: [a.yaml]}]\n", "a.yaml": aMap},
	"a file that a Secret has":               {"kustomization.yaml": "resources: [a.yaml]\nsecretGenerator: [{name: g, files: [k=a.yaml]}]\n", "a.yaml": aMap},
	"a file that a folder below puts in":     {"kustomization.yaml": "resources: [b/a.yaml, b]\n", "b/kustomization.yaml": "secretGenerator: [{name: g, files: [k=a.yaml]}]\n", "b/a.yaml": aMap},
	"a file that a plugin puts in":           {"kustomization.yaml": "resources: [a.yaml]\ngenerators: [g.yaml]\n", "a.yaml": aMap, "g.yaml": "apiVersion: builtin\nkind: SecretGenerator\nmetadata: {name: g}\nfiles: [k=a.yaml]\n"},
	"a file that is a patch too":             {"kustomization.yaml": "resources: [b, p.yaml]\npatches: [{path: p.yaml, target: {kind: ConfigMap}}]\n", "b/kustomization.yaml": "resources: [a.yaml]\n", "b/a.yaml": aMap, "p.yaml": "apiVersion: v1\nkind: Thing\nmetadata: {name: t}\nspec: {x: y}\n"},
	"a name that is known":                   {"kustomization.yaml": "resources: [a.yaml, p.yaml]\npatches: [{target: {kind: Pod, annotationSelector: '!sluice.dev/read-from'}, patch: '[{\"op\": \"add\", \"path\": \"/spec/hostNetwork\", \"value\": true}]'}]\n", "a.yaml": aMap, "p.yaml": aPod},
	"an annotation of that name":             {"kustomization.yaml": "resources: [a.yaml, p.yaml]\nnamePrefix: x-\n", "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {sluice.dev/read-from: p.yaml}}\n", "p.yaml": aPod},
	"a patch with that name":                 {"kustomization.yaml": "resources: [a.yaml, p.yaml]\ncommonAnnotations: {sluice.dev/read-from: a.yaml}\n", "a.yaml": aMap, "p.yaml": aPod},
	"names with a hash":                      {"kustomization.yaml": "resources: [a.yaml]\nnamePrefix: x-\nnameSuffix: -y\nconfigMapGenerator: [{name: g, literals: [a=b]}]\n", "a.yaml": aMap},
	"a hash of any kind":                     {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": "apiVersion: v1\nkind: Thing\nmetadata:\n  name: t\n  annotations: {internal.config.kubernetes.io/needsHashSuffix: enabled}\n"},
	"a hash that a patch asks for":           {"kustomization.yaml": "resources: [a.yaml]\npatches: [{target: {kind: Thing}, patch: '[{\"op\": \"add\", \"path\": \"/metadata/annotations/internal.config.kubernetes.io~1needsHashSuffix\", \"value\": \"enabled\"}]'}]\n", "a.yaml": "apiVersion: v1\nkind: Thing\nmetadata: {name: t, annotations: {x: y}}\n"},
	"a list":                                 {"kustomization.yaml": "resources: [l.yaml]\nnamePrefix: x-\n", "l.yaml": aList},
	"an object for tools":                    {"kustomization.yaml": "resources: [a.yaml, l.yaml]\nnamePrefix: x-\n", "a.yaml": aMap, "l.yaml": "apiVersion: v1\nkind: Thing\nmetadata: {name: t, annotations: {config.kubernetes.io/local-config: 'true'}}\n"},
	"a file in two bases":                    {"kustomization.yaml": "resources: [b, c]\n", "b/kustomization.yaml": "resources: [../s]\nnamePrefix: b-\n", "c/kustomization.yaml": "resources: [../s]\nnamePrefix: c-\n", "s/kustomization.yml": "resources: [a.yaml]\n", "s/a.yaml": annotated},
	"another name of kustomizations":         {"Kustomization": "resources: [b]\ncommonLabels: {x: z}\n", "b/kustomization.yml": "resources: [a.yaml]\n", "b/a.yaml": aMap},
	"vars":                                   {"kustomization.yaml": "resources: [a.yaml, p.yaml]\nvars: [{name: V, objref: {apiVersion: v1, kind: ConfigMap, name: a}, fieldref: {fieldpath: 'metadata.annotations.x'}}]\nconfigurations: [c.yaml]\n", "c.yaml": "varReference: [{path: metadata/annotations, kind: Pod}]\n", "a.yaml": annotated, "p.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {v: $(V)}}\nspec: {containers: [{name: c, image: i, args: [$(V)]}]}\n"},
	"a var of all annotations":               {"kustomization.yaml": "resources: [a.yaml, p.yaml]\nvars: [{name: V, objref: {apiVersion: v1, kind: ConfigMap, name: a}, fieldref: {fieldpath: 'metadata.annotations'}}]\n", "a.yaml": annotated, "p.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, args: [$(V)]}]}\n"},
	"origins that are asked for":             {"kustomization.yaml": "resources: [a.yaml]\nbuildMetadata: [originAnnotations, transformerAnnotations, managedByLabel]\nnamePrefix: x-\n", "a.yaml": annotated},
	"a configuration of annotations":         {"kustomization.yaml": "resources: [a.yaml]\nconfigurations: [c.yaml]\nnamePrefix: x-\n", "c.yaml": "namePrefix: [{path: metadata/annotations/x}, {path: metadata/name}]\n", "a.yaml": annotated},
	"patches that merge":                     {"kustomization.yaml": "resources: [a.yaml, p.yaml]\npatchesStrategicMerge: [m.yaml]\n", "m.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {x: y}}\nspec: {containers: [{name: c, env: [{name: A, value: b}]}]}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n$patch: delete\n", "a.yaml": annotated, "p.yaml": aPod},
	"labels that go where annotations are":   {"kustomization.yaml": "resources: [a.yaml, b.yaml]\nlabels: [{pairs: {x: z}, fields: [{path: metadata/annotations}]}]\n", "a.yaml": aMap, "b.yaml": aPod},
	"labels that are configured to go there": {"kustomization.yaml": "resources: [a.yaml]\nconfigurations: [c.yaml]\ncommonLabels: {x: z}\n", "c.yaml": "commonLabels: [{path: \"metadata/\\x61nnotations\"}]\n", "a.yaml": aMap},
	"labels that a schema has go there":      {"kustomization.yaml": "resources: [a.yaml]\ncrds: [c.json]\ncommonLabels: {x: z}\n", "a.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n", "c.json": `{"example.com/v1.Thing": {"Schema": {"properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": "m"}}}}, "m": {"Schema": {"properties": {"annotations": {"x-kubernetes-label-selector": true, "type": "object"}}}}}`},
	"a replacement of no annotations":        {"kustomization.yaml": "resources: [a.yaml, p.yaml]\nreplacements: [{source: {kind: Pod, fieldPath: metadata.labels}, targets: [{select: {kind: ConfigMap}, fieldPaths: [metadata.annotations]}]}]\n", "a.yaml": aMap, "p.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {x: z}}\n"},
	"a var of no annotations":                {"kustomization.yaml": "resources: [a.yaml, p.yaml]\nvars: [{name: V, objref: {apiVersion: v1, kind: ConfigMap, name: a}, fieldref: {fieldpath: metadata.annotations}}]\n", "a.yaml": aMap, "p.yaml": aPod},
	"a null that a patch drops":              {"kustomization.yaml": "resources: [p.yaml]\npatches: [{path: q.yaml}]\n", "p.yaml": "# \u00fc\n" + strings.Replace(aPod, "image: i", "image: i, tty", 1), "q.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, env: [{name: A, value: b}]}]}\n"},
	"empty annotations":                      {"kustomization.yaml": "resources: [a.yaml]\nnamePrefix: x-\n", "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations: {}\n"},
	"null annotations":                       {"kustomization.yaml": "resources: [a.yaml]\nnamePrefix: x-\n", "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n"},
}

// opened writes files into a new folder, and returns it, and the file system of the overlay that
// is below.
func opened(t *testing.T, files map[string]string, below string) (dir string, fresh func() *rooted) {
	t.Helper()
	dir = t.TempDir()
	for file, text := range files {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at, err := find(dir, filepath.Join(dir, below))
	if err != nil {
		t.Fatal(err)
	}
	handle, err := os.OpenRoot(at.root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { handle.Close() })
	return dir, func() *rooted { return newRooted(handle, at) }
}

// stockOf is what a stock Kustomize makes of a folder. Annotations that are there and empty are
// none to anybody.
func stockOf(t *testing.T, fsys *rooted, folder string) ([]map[string]any, error) {
	t.Helper()
	built, err := kustomize.Build(fsys, "/"+folder, nil)
	if err != nil {
		return nil, err
	}
	var out []map[string]any
	for _, r := range built.Resources() {
		u, err := contentOf(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(u.GetAnnotations()) == 0 {
			u.SetAnnotations(nil)
		}
		out = append(out, u.Object)
	}
	return out, nil
}

func contentsOf(objects []Object) []map[string]any {
	var out []map[string]any
	for _, o := range objects {
		out = append(out, o.Object)
	}
	return out
}

// isStock checks that what is read of files is what a stock Kustomize makes of them, or an error
// where that is one.
func isStock(t *testing.T, files map[string]string) {
	t.Helper()
	dir, fresh := opened(t, files, "")
	want, failed := stockOf(t, fresh(), "")
	objects, err := Read(dir, dir, nil)
	if (err != nil) != (failed != nil) {
		t.Fatalf("error: %v, where Kustomize says: %v", err, failed)
	}
	if err != nil {
		t.Log(failed)
		return
	}
	if got := contentsOf(objects); !reflect.DeepEqual(got, want) {
		t.Errorf("read:\n%v\nand Kustomize builds:\n%v", got, want)
	}
}

// What is judged is what a stock Kustomize makes of the same files.
func TestRead_IsWhatKustomizeBuilds(t *testing.T) {
	for name, files := range overlays {
		t.Run(name, func(t *testing.T) { isStock(t, files) })
	}
}
