package source_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/source"
)

func TestFaults_AreWhatKustomizePassesOverInSilence(t *testing.T) {
	const tag = "images:\n- {name: registry.example.com/shop/web, newTag: v2}\n"
	fields := "images:\n- {path: spec/image, kind: Workload}\n"
	uses := "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec:\n  containers:\n  - name: a\n    image: nginx:1\n    envFrom:\n    - configMapRef: {name: settings}\n"
	for name, c := range map[string]struct {
		files map[string]string
		says  []string
	}{
		"images that reach their pods":           {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "images:\n- {name: nginx, newName: other, newTag: v2}\n"}, nil},
		"images that reach nothing":              {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "images:\n- {name: ngnix, newTag: v2}\n"}, []string{"o/kustomization.yaml:3:3", "images: ngnix matches no image"}},
		"images that do not reach a Workload":    {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": workload, "o/kustomization.yaml": above + tag}, []string{"o/kustomization.yaml:3:3", "does not reach Workload/shop/web spec.image", "kustomize/components/workload-kustomize"}},
		"images that reach it":                   {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": workload, "o/c.yaml": fields, "o/kustomization.yaml": above + "configurations: [c.yaml]\n" + tag}, nil},
		"images of a base that reach nothing":    {map[string]string{"base/kustomization.yaml": base + "images:\n- {name: ngnix, newTag: v2}\n", "base/web.yaml": deployment, "o/kustomization.yaml": above}, []string{"base/kustomization.yaml:3:3", "matches no image below"}},
		"images of a base that a layer changes":  {map[string]string{"base/kustomization.yaml": base + "images:\n- {name: nginx, newTag: v2}\n", "base/web.yaml": deployment, "o/kustomization.yaml": above + "images:\n- {name: nginx, newName: x}\n"}, nil},
		"images by a pattern":                    {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "images:\n- {name: ng.*, newTag: v2}\n"}, nil},
		"images that only say what is there":     {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": strings.Replace(deployment, "nginx:1@sha256:1621aaafd8e1097cefd3e11d011554ab7acaa16f1c4e66ff300968d2f8a8ca66", "nginx:v2", 1), "o/kustomization.yaml": above + "images:\n- {name: nginx, newTag: v2}\n"}, nil},
		"a generator without the namespace":      {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": uses, "o/kustomization.yaml": above + "configMapGenerator:\n- {name: settings, literals: [a=b]}\n"}, []string{"base/web.yaml:9:22", "Pod/shop/web spec.containers[0].envFrom[0].configMapRef.name refers to ConfigMap settings", "o/kustomization.yaml generates", "in no namespace", "give the generator the namespace shop"}},
		"a generator with the namespace":         {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": uses, "o/kustomization.yaml": above + "configMapGenerator:\n- {name: settings, namespace: shop, literals: [a=b]}\n"}, nil},
		"a generator beside one that is written": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": uses + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\n", "o/kustomization.yaml": above + "configMapGenerator:\n- {name: settings, namespace: other, literals: [a=b]}\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, c.files)
			set, err := overlay.Load(dir, filepath.Join(dir, "o"), nil)
			if err != nil {
				t.Fatal(err)
			}
			var objects []source.Object
			for _, o := range set.Objects {
				objects = append(objects, source.Object{Content: o.Object, Path: o.Path})
			}
			said := ""
			for _, f := range source.New(set.Files, set.Kustomization, set.Shown).Faults(objects) {
				said += f.Place.String() + ": " + f.Message + "\n"
			}
			if (said == "") != (c.says == nil) {
				t.Errorf("faults: %q", said)
			}
			for _, s := range c.says {
				if !strings.Contains(said, s) {
					t.Errorf("%q is not said in %q", s, said)
				}
			}
		})
	}
}
