package overlay_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

// Kustomize warns in every build, for every kustomization, and does not say of which.
func TestLoad_WarnsOnceOfEachDeprecatedField(t *testing.T) {
	const twice = "labels: [{pairs: {a: b}, fields: [{path: spec/annotations, create: true}]}]\n"
	for name, over := range map[string]string{
		"that is built": "",
		"that is built with annotations and then": twice,
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{
				"base/kustomization.yaml": "resources: [web.yaml]\ncommonLabels: {team: shop}\n", "base/web.yaml": workload,
				"over/kustomization.yaml": "bases: [../base]\ncommonLabels: {environment: dev}\n" + over,
			})
			set, err := overlay.Load(dir, filepath.Join(dir, "over"), nil)
			if err != nil {
				t.Fatal(err)
			}
			warns := func(field, by string) string {
				return "'" + field + "' is deprecated. Please use '" + by + "' instead. Run 'kustomize edit fix' to update your Kustomization automatically."
			}
			over, base := filepath.Join(dir, "over/kustomization.yaml: "), filepath.Join(dir, "base/kustomization.yaml: ")
			want := []string{over + warns("bases", "resources"), over + warns("commonLabels", "labels"), base + warns("commonLabels", "labels")}
			var told []string
			for _, w := range set.Warnings {
				told = append(told, w.String())
				if w.File != filepath.Join(w.Root, w.Path) || w.Root != set.Root {
					t.Errorf("%+v is not named by its whole path, from elsewhere", w)
				}
			}
			if !slices.Equal(told, want) {
				t.Errorf("warnings: %q", set.Warnings)
			}
		})
	}
	dir := write(t, map[string]string{"kustomization.yaml": "resources: [web.yaml]\n", "web.yaml": workload})
	if set, err := overlay.Load(dir, dir, nil); err != nil || len(set.Warnings) > 0 {
		t.Errorf("warnings of nothing: %v %v", set, err)
	}
}
