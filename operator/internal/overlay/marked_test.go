package overlay

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
)

// contents of a resource file as Kustomize reads it, and the files that the annotations of its
// objects name, which are taken out. nil where it does not read it.
func contents(t *testing.T, raw []byte) (objects []map[string]any, files []string) {
	t.Helper()
	read, err := kustomize.Read(raw)
	if err != nil {
		return nil, nil
	}
	objects = []map[string]any{}
	for _, r := range read {
		u, err := contentOf(r)
		if err != nil {
			return nil, nil
		}
		files = append(files, unmark(u))
		objects = append(objects, u.Object)
	}
	return objects, files
}

var resourceFiles = map[string]struct {
	text string
	// kept says that the text is to stay as it is but for the annotation.
	kept bool
}{
	"a block":                     {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {k: v}\n", true},
	"with annotations":            {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n    x: y\n", true},
	"annotations at no indent":    {"kind: ConfigMap\napiVersion: v1\nmetadata:\n annotations:\n  x: y\n name: a\n", true},
	"in braces":                   {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", true},
	"annotations in braces":       {"apiVersion: v1\nkind: ConfigMap\nmetadata: {annotations: {x: \"y\"}, name: a}\n", true},
	"JSON":                        {`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}}`, true},
	"several documents":           {"---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: # of b\n  # its name\n  name: b\n", true},
	"quoted keys":                 {"\"apiVersion\": v1\n'kind': ConfigMap\n\"metadata\":\n  'name': a\n", true},
	"numbers and dates":           {"apiVersion: v1\nkind: X\nmetadata:\n  name: a\nspec: {a: 0x10, b: 1.50, c: 2020-01-01, d: 1e3, e: 010, f: yes, g: ~, h: \"1\"}\n", true},
	"texts of several lines":      {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: |\n    metadata:\n      name: b\n  l: >-\n    x\n\n    y\n", true},
	"nothing at the end":          {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a", true},
	"anchors":                     {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: &l {x: y}\n  annotations: *l\n", false},
	"a merge":                     {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {<<: {x: y}, z: w}\n", false},
	"empty annotations":           {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations: {}\n", false},
	"annotations that are null":   {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n", false},
	"a list":                      {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: b}\n", false},
	"a kind that ends as a list":  {"apiVersion: v1\nkind: AllowList\nmetadata: {name: a}\n", false},
	"a tab after the key":         {"apiVersion: v1\nkind: ConfigMap\nmetadata:\t\n  name: a\n", true},
	"an explicit key":             {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  ? name\n  : a\n", false},
	"a tagged key":                {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  !!str name: a\n", true},
	"ends of lines of Windows":    {"apiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: a\r\n", false},
	"letters beyond ASCII":        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {ü: ü}, name: a}\n", false},
	"a comment alone":             {"# nothing\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n", true},
	"our own annotation":          {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations: {" + fileAnnotation + ": other.yaml}\n", false},
	"our own annotation, escaped": {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations: {\"" + strings.Replace(fileAnnotation, "/", "\\/", 1) + "\": other.yaml}\n", false},
	"a key twice":                 {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nmetadata: {name: b}\n", false},
	"metadata that is a text":     {"apiVersion: v1\nkind: ConfigMap\nmetadata: a\n", false},
	"no YAML":                     {"apiVersion: [\n", false},
}

func TestMarked_SaysWhereObjectsAreFromAndChangesNothingElse(t *testing.T) {
	for name, c := range resourceFiles {
		t.Run(name, func(t *testing.T) {
			if _, kept := inserted([]byte(c.text), "f.yaml"); kept != c.kept {
				t.Errorf("the text is kept: %v", kept)
			}
			for i, file := range same(t, c.text) {
				if file != "f.yaml" {
					t.Errorf("object %d is said to be from %q", i, file)
				}
			}
		})
	}
}

// Of what becomes of files when some of their bytes are others, a fifth can still be read.
func TestMarked_ChangesNothingElseOfRandomFiles(t *testing.T) {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(resourceFiles)) {
		texts = append(texts, resourceFiles[name].text)
	}
	const signs = " \n\t-:{}[]&*?!|>\"'#,ax0~%\r<\\\u00e9"
	readable := 0
	for seed := range uint64(8000) {
		r := rand.New(rand.NewPCG(seed, 7))
		text := []byte(texts[r.IntN(len(texts))])
		for range 1 + r.IntN(3) {
			at := r.IntN(len(text))
			switch r.IntN(3) {
			case 0:
				text[at] = signs[r.IntN(len(signs))]
			case 1:
				text = append(text[:at:at], append([]byte{signs[r.IntN(len(signs))]}, text[at:]...)...)
			default:
				text = append(text[:at:at], text[min(len(text), at+1+r.IntN(3)):]...)
			}
		}
		if same(t, string(text)) != nil {
			readable++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if readable < 1200 {
		t.Errorf("only %d could be read", readable)
	}
}

// same fails where a text is not read the same when it is marked. It returns the files that its
// objects are said to be from; nil where it cannot be read.
func same(t *testing.T, text string) []string {
	t.Helper()
	want, _ := contents(t, []byte(text))
	out, _ := marked([]byte(text), "f.yaml")
	got, files := contents(t, out)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nis read as %v\nand marked\n%s\nas %v", text, want, out, got)
	}
	return files
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestBuild_TakesNotMuchMoreThanKustomizeForManyPatches(t *testing.T) {
	const n = 60
	var objects, patches strings.Builder
	for i := range n {
		fmt.Fprintf(&objects, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {k: v}\n", i)
		fmt.Fprintf(&patches, "- {target: {kind: ConfigMap, name: c%d}, patch: '[{\"op\": \"replace\", \"path\": \"/data/k\", \"value\": \"w\"}]'}\n", i)
	}
	_, fresh := opened(t, map[string]string{"c.yaml": objects.String(), "kustomization.yaml": "resources: [c.yaml]\npatches:\n" + patches.String()}, "")
	var err error
	theirs := allocated(func() { _, err = kustomize.Build(fresh(), "/", nil) })
	if err != nil {
		t.Fatal(err)
	}
	ours := allocated(func() { _, err = build(fresh(), "") })
	if err != nil {
		t.Fatal(err)
	}
	if ours > 2*theirs {
		t.Errorf("%d bytes for %d patches of as many objects, where Kustomize alone takes %d", ours, n, theirs)
	}
}
