package source_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/source"
)

// fleet is n Workloads and what a kustomization below them does to them; each has one
// finding, about field.
type fleet struct {
	files func(n int) map[string]string
	// path of the i-th Workload.
	path  func(i int) string
	built func(i int) map[string]any
	field string
	// place that the finding of the i-th has to have.
	place func(n, i int) string
}

func fleetWorkload(i int) string {
	return fmt.Sprintf("apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: w%d, namespace: shop}\nspec:\n  image: r.io/shop/w%[1]d:1\n  replicas: 1\n", i)
}

func builtWorkload(i int, image string, replicas int) map[string]any {
	return map[string]any{
		"apiVersion": "sluice.dev/v1beta1", "kind": "Workload", "metadata": map[string]any{"name": fmt.Sprintf("w%d", i), "namespace": "shop"},
		"spec": map[string]any{"image": image, "replicas": replicas},
	}
}

// apart are the Workloads each in a file of its own, below o, whose kustomization has lines.
func apart(n int, lines string) map[string]string {
	files := map[string]string{"o/kustomization.yaml": above + lines}
	list := "resources:\n"
	for i := range n {
		files[ownFile(i)] = fleetWorkload(i)
		list += fmt.Sprintf("- w%d.yaml\n", i)
	}
	files["base/kustomization.yaml"] = list
	return files
}

func ownFile(i int) string { return fmt.Sprintf("base/w%d.yaml", i) }

func times(n int, line func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(line(i))
	}
	return b.String()
}

func asWritten(i int) map[string]any { return builtWorkload(i, fmt.Sprintf("r.io/shop/w%d:1", i), 1) }
func twice(i int) map[string]any     { return builtWorkload(i, fmt.Sprintf("r.io/shop/w%d:1", i), 2) }

func mergePatch(i int) string {
	return fmt.Sprintf("{apiVersion: sluice.dev/v1beta1, kind: Workload, metadata: {name: w%d}, spec: {replicas: 2}}\n", i)
}

var fleets = map[string]fleet{
	"a file each": {
		func(n int) map[string]string { return apart(n, "") }, ownFile, asWritten, "spec.image",
		func(_, i int) string { return fmt.Sprintf("base/w%d.yaml:5:3 spec.image", i) },
	},
	"all in one file": {
		func(n int) map[string]string {
			return map[string]string{"o/kustomization.yaml": above, "base/kustomization.yaml": "resources: [all.yaml]\n",
				"base/all.yaml": times(n, func(i int) string { return "---\n" + fleetWorkload(i) })}
		},
		func(int) string { return "base/all.yaml" }, asWritten, "spec.image",
		func(_, i int) string { return fmt.Sprintf("base/all.yaml:%d:3 spec.image", 7*i+6) },
	},
	"a patch each, in a file": {
		func(n int) map[string]string {
			files := apart(n, "patches:\n"+times(n, func(i int) string { return fmt.Sprintf("- path: p%d.yaml\n", i) }))
			for i := range n {
				files[fmt.Sprintf("o/p%d.yaml", i)] = mergePatch(i)
			}
			return files
		},
		ownFile, twice, "spec.replicas",
		func(_, i int) string {
			return fmt.Sprintf("o/p%d.yaml:1:%d spec.replicas", i, strings.Index(mergePatch(i), "replicas")+1)
		},
	},
	"a patch each, in the text": {
		func(n int) map[string]string {
			return apart(n, "patches:\n"+times(n, func(i int) string { return "- patch: |\n    " + mergePatch(i) }))
		},
		ownFile, twice, "spec.replicas",
		func(_, i int) string {
			return fmt.Sprintf("o/kustomization.yaml:%d:%d patches[%d].patch: spec.replicas", 2*i+4, strings.Index(mergePatch(i), "replicas")+5, i)
		},
	},
	"a patch each, by a target": {
		func(n int) map[string]string {
			return apart(n, "patches:\n"+times(n, func(i int) string {
				return fmt.Sprintf("- target: {kind: Workload, name: w%d}\n  patch: '[{op: replace, path: /spec/replicas, value: 2}]'\n", i)
			}))
		},
		ownFile, twice, "spec.replicas",
		func(_, i int) string {
			return fmt.Sprintf("o/kustomization.yaml:%d:10 patches[%d].patch: [0].value", 2*i+4, i)
		},
	},
	"an entry of images each": {
		func(n int) map[string]string {
			return apart(n, "images:\n"+times(n, func(i int) string { return fmt.Sprintf("- {name: r.io/shop/w%d, newTag: v2}\n", i) }))
		},
		ownFile, func(i int) map[string]any { return builtWorkload(i, fmt.Sprintf("r.io/shop/w%d:v2", i), 1) }, "spec.image",
		func(_, i int) string {
			return fmt.Sprintf("o/kustomization.yaml:%d:%d images[%d].newTag", i+3, len(fmt.Sprintf("- {name: r.io/shop/w%d, ", i))+1, i)
		},
	},
}

// allocated is how many bytes it takes to find the places of all findings of a fleet.
func allocated(t *testing.T, f fleet, n int) uint64 {
	t.Helper()
	files := map[string][]byte{}
	for name, text := range f.files(n) {
		files[name] = []byte(text)
	}
	sources := source.New(files, "o", func(name string) string { return name })
	var before, after runtime.MemStats
	got, looked := make([]string, n), map[string]bool{}
	runtime.ReadMemStats(&before)
	for i := range n {
		p := sources.Find(source.Object{Content: f.built(i), Path: f.path(i)}, f.field)
		if !looked[p.File] { // as the command does
			sources.Contents(p.File)
		}
		looked[p.File] = true
		got[i] = p.String() + " " + p.Field + p.Note
	}
	runtime.ReadMemStats(&after)
	for i := range n {
		if want := f.place(n, i); got[i] != want {
			t.Fatalf("finding %d of %d is at %s, want %s", i, n, got[i], want)
		}
	}
	return after.TotalAlloc - before.TotalAlloc
}

// What is allocated can be counted, unlike time: whoever searches all files, entries or lines
// for each finding allocates for each pair of them. Four times as many then take 16 times.
func TestFind_TakesAsMuchForEachFindingHoweverManyThereAre(t *testing.T) {
	for name, f := range fleets {
		t.Run(name, func(t *testing.T) {
			few, many := allocated(t, f, 100), allocated(t, f, 400)
			if many > 6*few {
				t.Errorf("100 findings take %d bytes and 400 take %d, which is %.1f times as many", few, many, float64(many)/float64(few))
			}
		})
	}
}
