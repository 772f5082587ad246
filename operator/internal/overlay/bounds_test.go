package overlay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

func TestRead_RefusesBombs(t *testing.T) {
	deep := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		deep += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	// Few aliases, each of them long: parsers that count aliases let this through.
	wide := "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a, ", 2000) + "]\n"
	for name, bomb := range map[string]string{
		"aliases of aliases":    deep,
		"a long text, repeated": wide,
		"a node in itself":      "a: &a [*a]\n",
	} {
		for where, files := range map[string]map[string]string{
			"manifest":              {"x.yaml": "apiVersion: v1\nkind: ConfigMap\n" + bomb},
			"resource":              {"kustomization.yaml": "resources: [x.yaml]\n", "x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n" + bomb},
			"kustomization":         {"kustomization.yaml": bomb + "resources: [x.yaml]\n", "x.yaml": workload},
			"patch in its own file": {"kustomization.yaml": "resources: [x.yaml]\npatches: [{path: p.yaml}]\n", "x.yaml": workload, "p.yaml": workload + bomb},
			"patch in the text":     {"kustomization.yaml": "resources: [x.yaml]\npatches:\n- patch: |\n    " + strings.ReplaceAll(workload+bomb, "\n", "\n    ") + "\n", "x.yaml": workload},
		} {
			t.Run(name+" in a "+where, func(t *testing.T) {
				_, err := read(t, write(t, files), ".")
				mustFail(t, err)
				if name != "a node in itself" {
					mustFail(t, err, "limits.ExpandedBytes")
				}
			})
		}
	}
}

func TestRead_RefusesWhatIsTooMuch(t *testing.T) {
	t.Run("a file over the limit", func(t *testing.T) {
		dir := write(t, map[string]string{"x.yaml": strings.Repeat("#", limits.SourceFileBytes+1)})
		_, err := read(t, dir, ".")
		mustFail(t, err, "x.yaml", "limits.SourceFileBytes")
	})
	t.Run("standard input over the limit", func(t *testing.T) {
		_, err := overlay.Read("", overlay.Stdin, strings.NewReader(strings.Repeat("#", limits.SourceFileBytes+1)))
		mustFail(t, err, "standard input", "limits.SourceFileBytes")
	})
	t.Run("too many objects in one file", func(t *testing.T) {
		dir := write(t, map[string]string{"x.yaml": "apiVersion: v1\nkind: List\nitems:\n" + strings.Repeat("- {apiVersion: v1, kind: A}\n", limits.Objects+1)})
		_, err := read(t, dir, "x.yaml")
		mustFail(t, err, "x.yaml", "limits.Objects")
	})
	t.Run("folders too deep", func(t *testing.T) {
		dir := write(t, map[string]string{strings.Repeat("d/", limits.SourceDepth+2) + "x.yaml": workload})
		_, err := read(t, dir, ".")
		mustFail(t, err, "limits.SourceDepth")
	})
	t.Run("kustomizations too deep", func(t *testing.T) {
		files := map[string]string{"kustomization.yaml": "resources: [d]\n"}
		for i := 1; i <= limits.SourceDepth+1; i++ {
			files[strings.Repeat("d/", i)+"kustomization.yaml"] = "resources: [d]\n"
		}
		_, err := read(t, write(t, files), ".")
		mustFail(t, err, "limits.SourceDepth")
	})
	t.Run("lists too deep", func(t *testing.T) {
		depth := limits.SourceDepth + 1
		dir := write(t, map[string]string{"x.yaml": strings.Repeat("{apiVersion: v1, kind: List, items: [", depth) + strings.Repeat("]}", depth)})
		_, err := read(t, dir, ".")
		mustFail(t, err, "x.yaml:1:", "limits.SourceDepth")
	})
	t.Run("bases that double at every level", func(t *testing.T) {
		files := map[string]string{"kustomization.yaml": "resources: [l0/a, l0/b]\n", "l12/a/kustomization.yaml": "namePrefix: a-\n", "l12/b/kustomization.yaml": "namePrefix: b-\n"}
		for i := range 12 {
			for _, side := range []string{"a", "b"} {
				files[fmt.Sprintf("l%d/%s/kustomization.yaml", i, side)] = fmt.Sprintf("namePrefix: %s-\nresources: [../../l%d/a, ../../l%d/b]\n", side, i+1, i+1)
			}
		}
		_, err := read(t, write(t, files), ".")
		mustFail(t, err, "limits.SourceFiles")
	})
}
