package overlay

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
)

const thing = "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: NAME, namespace: shop}\nspec: {image: a}\n"

func workload(name string) string { return strings.Replace(thing, "NAME", name, 1) }

// Where the short way gives an answer it has to be Kustomize's, object for object and field
// for field; where it gives none, Kustomize is asked.
func TestPlain_GivesWhatKustomizeGives(t *testing.T) {
	list := func(entries string) string { return "resources: [" + entries + "]\n" }
	for name, c := range map[string]struct {
		files map[string]string
		plain bool
	}{
		"files in order": {map[string]string{"o/kustomization.yaml": list("b.yaml, a.yaml"), "o/a.yaml": workload("a"), "o/b.yaml": workload("b")}, true},
		"folders in folders": {map[string]string{"o/kustomization.yaml": list("../x, a.yaml, ../y"), "o/a.yaml": workload("a"),
			"x/Kustomization": list("b.yaml"), "x/b.yaml": workload("b"), "y/kustomization.yml": "kind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\nmetadata: {name: yy}\n" + list("c.yaml"), "y/c.yaml": workload("c")}, true},
		"several documents, lists and comments": {map[string]string{"o/kustomization.yaml": list("a.yaml"),
			"o/a.yaml": "# a\n" + workload("a") + "---\n---\n# b\n" + workload("b") + "---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: sluice.dev/v1beta1, kind: Workload, metadata: {name: c}}\n"}, true},
		"values that are easy to mistake": {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: a, annotations: {}}\nspec:\n" +
			"  a: 1.0\n  b: 1e3\n  c: 0x10\n  d: 010\n  e: yes\n  f: 'yes'\n  g: 2026-01-01\n  h: ~\n  i: 12345678901234567890\n  j: '1'\n  k: |\n    x\n    y\n  l: >-\n    x\n    y\n  m: !!str 5\n  n: 1_000\n  p: \"\\u00e9\\x07\"\n  q: {}\n  r: []\n  s: 1:30\n"}, true},
		"aliases and merge keys": {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": workload("a") + "x: &x {a: b, c: d}\ny: *x\nz: {<<: *x, c: e}\n"}, true},
		"JSON":                   {map[string]string{"o/kustomization.yaml": list("a.json"), "o/a.json": `{"apiVersion":"sluice.dev/v1beta1","kind":"Gate","metadata":{"name":"a","annotations":{"a":"b"}},"spec":{"n":1.5,"m":2.0}}`}, true},
		"a Namespace":            {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {a: b}}\n"}, true},

		"blocks of text, and nulls without a text": {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": workload("a") +
			"x: {a: , b: c}\ny: !!set {a, b}\nz:\n  a: >+\n    x\n\n    y\n\n  b: |2\n    x\n  c: |+\n    x\n\n  d: |\n    x\n\n    y\n"}, true},

		"two kustomizations in a folder": {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/kustomization.yml": list("b.yaml"), "o/a.yaml": workload("a"), "o/b.yaml": workload("b")}, false},
		"two kustomizations in a base": {map[string]string{"o/kustomization.yaml": list("../x"), "x/kustomization.yaml": list("a.yaml"), "x/Kustomization": list("b.yaml"),
			"x/a.yaml": workload("a"), "x/b.yaml": workload("b")}, false},
		"the folder that it lies in":        {map[string]string{"o/kustomization.yaml": list("a.yaml, .."), "o/a.yaml": workload("a"), "kustomization.yaml": list("b.yaml"), "b.yaml": workload("b")}, false},
		"a Namespace in two namespaces":     {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: x, namespace: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: x, namespace: b}\n"}, false},
		"an annotation that is a number":    {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": strings.Replace(workload("a"), "namespace", "annotations: {a: 1}, namespace", 1)}, false},
		"an annotation that is null":        {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": strings.Replace(workload("a"), "namespace", "annotations: {a: null}, namespace", 1)}, false},
		"annotations that are a list":       {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": strings.Replace(workload("a"), "namespace", "annotations: [a], namespace", 1)}, false},
		"a number before one for Kustomize": {map[string]string{"o/kustomization.yaml": list("a.yaml, b.yaml"), "o/a.yaml": workload("a"), "o/b.yaml": strings.Replace(workload("b"), "namespace", "annotations: {a: 1, config.kubernetes.io/local-config: 'true'}, namespace", 1)}, false},

		"an object that refers to others": {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"}, false},
		"an annotation for Kustomize":     {map[string]string{"o/kustomization.yaml": list("a.yaml, b.yaml"), "o/a.yaml": workload("a"), "o/b.yaml": strings.Replace(workload("b"), "namespace", "annotations: {config.kubernetes.io/local-config: 'true'}, namespace", 1)}, false},
		"a label for all":                 {map[string]string{"o/kustomization.yaml": list("a.yaml") + "labels: [{pairs: {a: b}}]\n", "o/a.yaml": workload("a")}, false},
		"a patch in a base":               {map[string]string{"o/kustomization.yaml": list("../x"), "x/kustomization.yaml": list("a.yaml") + "namePrefix: x-\n", "x/a.yaml": workload("a")}, false},
		"an order":                        {map[string]string{"o/kustomization.yaml": list("b.yaml, a.yaml") + "sortOptions: {order: legacy}\n", "o/a.yaml": workload("a"), "o/b.yaml": workload("b")}, false},
		"one object twice":                {map[string]string{"o/kustomization.yaml": list("a.yaml, b.yaml"), "o/a.yaml": workload("a"), "o/b.yaml": workload("a")}, false},
		"a base twice":                    {map[string]string{"o/kustomization.yaml": list("../x, ../y"), "x/kustomization.yaml": list("../y"), "y/kustomization.yaml": list("a.yaml"), "y/a.yaml": workload("a")}, false},
		"a component among the resources": {map[string]string{"o/kustomization.yaml": list("../x"), "x/kustomization.yaml": "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\n" + list("a.yaml"), "x/a.yaml": workload("a")}, false},
		"no name":                         {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {}\n"}, false},
		"text that is no YAML":            {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": "a: [\n"}, false},
		"an item that is null":            {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": workload("a") + "x: [null]\n"}, false},
		"a key twice":                     {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": workload("a") + "x: {a: b, a: c}\n"}, false},
		"a key that is a mapping":         {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": workload("a") + "x:\n  ? {a: b}\n  : c\n"}, false},
		"an anchor without an alias":      {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": workload("a") + "x: &x {a: b}\n"}, true},
		"a text with a star":              {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": workload("a") + "x: a*b\ny: 'a & b'\n"}, true},
		"line ends of Windows":            {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": strings.ReplaceAll(workload("a")+"---\n"+workload("b"), "\n", "\r\n")}, true},
		"a list of Workloads":             {map[string]string{"o/kustomization.yaml": list("a.yaml"), "o/a.yaml": "apiVersion: sluice.dev/v1beta1\nkind: WorkloadList\nitems:\n- {apiVersion: sluice.dev/v1beta1, kind: Workload, metadata: {name: c}}\n"}, true},
		"an empty file":                   {map[string]string{"o/kustomization.yaml": list("a.yaml, b.yaml"), "o/a.yaml": workload("a"), "o/b.yaml": ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, fresh := opened(t, c.files, "o")
			got, plainErr := plain(fresh(), "o")
			if c.plain && plainErr != nil {
				t.Fatal(plainErr)
			}
			if plainErr != nil {
				return
			}
			fsys := newOriginated(fresh())
			built, err := kustomize.Build(fsys, "/o", nil)
			if err != nil {
				t.Fatalf("Kustomize refuses it: %v", err)
			}
			want, err := fromResources(fsys, built, "o")
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) {
				t.Fatalf("%d objects and not %d", len(got), len(want))
			}
			for i := range want {
				if got[i].File != want[i].File || got[i].Path != want[i].Path || !reflect.DeepEqual(got[i].Object, want[i].Object) {
					t.Errorf("%d: %s %s %v\nKustomize: %s %s %v", i, got[i].File, got[i].Path, got[i].Object, want[i].File, want[i].Path, want[i].Object)
				}
			}
		})
	}
}
