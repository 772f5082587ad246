package pin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/pin"
)

func TestChange_Refuses(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		link   string
		digest string
		says   []string
	}{
		"no digest": {files: map[string]string{"overlay/kustomization.yaml": top}, digest: "sha256:1", says: []string{"is no digest"}},
		"an anchor that is used elsewhere": {
			files: map[string]string{"overlay/kustomization.yaml": top + "images:\n- name: $R\n  digest: &d $A\n- name: other\n  digest: *d\n"},
			says:  []string{"overlay/kustomization.yaml:5: ", "used in line 7 too (&d)"},
		},
		"an entry that is used elsewhere": {
			files: map[string]string{"overlay/kustomization.yaml": top + "images:\n- &e {name: $R, digest: $A}\n- *e\n"},
			says:  []string{"overlay/kustomization.yaml:4: the entry is used in line 5 too (&e)"},
		},
		"a tag with an anchor that is used elsewhere": {
			files: map[string]string{"overlay/kustomization.yaml": top + "images:\n- name: $R\n  newTag: &t v1\n  digest: $A\n- {name: other, newTag: *t}\n"},
			says:  []string{"kustomization.yaml:5: newTag gives way, and is used in line 7 (&t)"},
		},
		"an object whose spec is written elsewhere": {
			files: map[string]string{"overlay/kustomization.yaml": "resources: [web.yaml]\n", "overlay/web.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop, annotations: {a: &i '$R@$A'}}\nspec: {image: '$R@$A', args: [*i]}\nx: &s {a: b}\ny: *s\n"},
			says:  nil,
		},
		"a file that is a link": {
			files: map[string]string{"overlay/kustomization.yaml": top + "patches: [{path: p.yaml}]\n", "overlay/real.yaml": workload("web", "$R@$A")},
			link:  "overlay/p.yaml", says: []string{"overlay/p.yaml", "is a link"},
		},
		"a file that is generated": {
			files: map[string]string{"overlay/kustomization.yaml": "# Made by cdk8s. DO NOT EDIT.\n" + top + "images: [{name: $R, digest: $A}]\n"},
			says:  []string{"overlay/kustomization.yaml:1: the file is generated"},
		},
		"a transformer that sets the image": {
			files: map[string]string{
				"overlay/kustomization.yaml": top + "transformers: [t.yaml]\n",
				"overlay/t.yaml":             "apiVersion: builtin\nkind: ImageTagTransformer\nmetadata: {name: a}\nimageTag: {name: $R, digest: $A}\nfieldSpecs: [{kind: Workload, path: spec/image}]\n",
			},
			says: []string{"where its image is set is not sure", "base/web.yaml:"},
		},
		"images that do not reach Workloads": {
			files: map[string]string{"overlay/kustomization.yaml": "resources: [../base]\n"},
			says:  []string{"its image is still", "workload-kustomize"},
		},
		"a replacement that comes after": {
			files: map[string]string{"overlay/kustomization.yaml": top + "patches: [{path: p.yaml}]\nimages: [{name: $R, digest: $A}]\nreplacements:\n- source: {kind: ConfigMap, name: c, fieldPath: data.image}\n  targets: [{select: {kind: Workload}, fieldPaths: [spec.image]}]\nconfigMapGenerator: [{name: c, literals: ['image=$R@$A']}]\n",
				"overlay/p.yaml": workload("web", "$R:1")},
			says: []string{"its image is still"},
		},
		"a patch whose text is folded": {
			files: map[string]string{"overlay/kustomization.yaml": top + "patches:\n- target: {kind: Workload}\n  patch: >\n    [{\"op\": \"replace\", \"path\": \"/spec/image\",\n    \"value\": \"$R@$A\"}]\n"},
			says:  []string{"overlay/kustomization.yaml:5: ", "as a block (|)"},
		},
		"images that are null": {
			files: map[string]string{"overlay/kustomization.yaml": top + "images:\n"}, says: []string{"kustomization.yaml:3: images is no list"},
		},
		"a document that dots end": {
			files: map[string]string{"overlay/kustomization.yaml": top + "...\n"}, says: []string{"line of dots"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for file, content := range c.files {
				files[file] = fill(content)
			}
			dir := fleet(t, files)
			if c.link != "" {
				if err := os.Symlink("real.yaml", filepath.Join(dir, c.link)); err != nil {
					t.Fatal(err)
				}
			}
			set := load(t, dir, "overlay")
			if c.digest == "" {
				c.digest = digestB
			}
			got, err := pin.Change(set, pin.Want{Object: object(t, set, "web"), Digest: c.digest})
			if c.says == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatalf("not refused: %v %s", got.Edits, got.Files)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q is not said: %v", s, err)
				}
			}
		})
	}
}
