package pin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/pin"
)

var (
	digestA = "sha256:" + strings.Repeat("a", 64)
	digestB = "sha256:" + strings.Repeat("b", 64)
)

const repo = "registry.example.com/shop/web"

// fleet is a base, the component, and an overlay that is under test.
func fleet(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{
		"base/kustomization.yaml": "resources: [web.yaml]\n",
		"base/web.yaml":           workload("web", repo),
	}
	for _, name := range []string{"kustomization.yaml", "fields.yaml"} {
		raw, err := os.ReadFile("../../../kustomize/components/workload-kustomize/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all["component/"+name] = string(raw)
	}
	for name, content := range files {
		all[name] = content
	}
	for name, content := range all {
		write(t, dir, name, content)
	}
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func workload(name, image string) string {
	return "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: " + name + ", namespace: shop}\nspec:\n  image: " + image + "\n"
}

func load(t *testing.T, dir, name string) *overlay.Set {
	t.Helper()
	set, err := overlay.Load(dir, filepath.Join(dir, name), nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func object(t *testing.T, set *overlay.Set, name string) overlay.Object {
	t.Helper()
	for _, o := range set.Objects {
		if o.GetKind() == "Workload" && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("no Workload %s", name)
	return overlay.Object{}
}

const top = "resources: [../base]\ncomponents: [../component]\n"

// fill puts the digests into a text.
func fill(text string) string {
	return strings.NewReplacer("$A", digestA, "$B", digestB, "$R", repo).Replace(text)
}

func TestChange_EditsTheRightPlaceAndKeepsEveryOtherByte(t *testing.T) {
	for name, c := range map[string]struct {
		file, before, after string
		more                map[string]string
		tag                 string
	}{
		"an entry of images": {
			before: top + "# c\nimages: # d\n  - name: $R # e\n    # f\n    digest: $A # g\n# h\n",
			after:  top + "# c\nimages: # d\n  - name: $R # e\n    # f\n    digest: $B # g\n# h\n",
		},
		"an entry in flow style": {
			before: top + "images: [{name: $R, digest: '$A'}, {name: other, newTag: x}]\n",
			after:  top + "images: [{name: $R, digest: '$B'}, {name: other, newTag: x}]\n",
		},
		"a tag beside the digest gives way": {
			before: top + "images:\n- name: $R\n  newTag: \"1.0\" # c\n  digest: $A\n",
			after:  top + "images:\n- name: $R\n  # c\n  digest: $B\n",
		},
		"a tag beside the digest gives way, first of its entry": {
			before: top + "images:\n- newTag: '1.0'\n  # c\n  name: $R\n  digest: $A\n",
			after:  top + "images:\n- # c\n  name: $R\n  digest: $B\n",
		},
		"a tag beside the digest gives way, last of the file": {
			before: top + "images:\n- name: $R\n  digest: $A\n  newTag: '1.0'",
			after:  top + "images:\n- name: $R\n  digest: $B",
		},
		"a tag beside the digest gives way in flow style": {
			before: top + "images: [{newTag: a, name: $R, digest: $A}]\n",
			after:  top + "images: [{name: $R, digest: $B}]\n",
		},
		"a tag beside the digest gives way, last in flow style": {
			before: top + "images: [{name: $R, digest: $A, newTag: a}]\n",
			after:  top + "images: [{name: $R, digest: $B}]\n",
		},
		"a tag beside the digest is written": {
			before: top + "images:\n- name: $R\n  newTag: v1 # c\n  digest: $A\n", tag: "1.10",
			after: top + "images:\n- name: $R\n  newTag: \"1.10\" # c\n  digest: $B\n",
		},
		"a tag is added": {
			before: top + "images:\n- digest: $A\n  name: $R\n", tag: "v2",
			after: top + "images:\n- newTag: v2\n  digest: $B\n  name: $R\n",
		},
		"a tag alone becomes a digest": {
			before: top + "images:\n- name: $R\n  newTag: \"1.0\" # c\n",
			after:  top + "images:\n- name: $R\n  digest: \"$B\" # c\n",
		},
		"a tag alone gets a digest": {
			before: top + "images:\n- name: $R\n  newTag: v1 # c\n", tag: "v2",
			after: top + "images:\n- name: $R\n  newTag: v2 # c\n  digest: $B\n",
		},
		"an alias gets the value": {
			before: top + "images:\n- {name: other, digest: &d $A}\n- name: $R\n  digest: *d # c\n",
			after:  top + "images:\n- {name: other, digest: &d $A}\n- name: $R\n  digest: $B # c\n",
		},
		"an anchor that nobody uses": {
			before: top + "images:\n- name: $R\n  digest: &d $A\n", after: top + "images:\n- name: $R\n  digest: &d $B\n",
		},
		"line ends of Windows": {
			before: "resources: [../base]\r\ncomponents: [../component]\r\nimages:\r\n- name: $R\r\n  newTag: v1\r\n  digest: $A\r\n",
			after:  "resources: [../base]\r\ncomponents: [../component]\r\nimages:\r\n- name: $R\r\n  digest: $B\r\n",
		},
		"a byte order mark and letters of several bytes": {
			before: "\ufeff" + top + "images: [{name: $R, digest: $A}] # ä\n", after: "\ufeff" + top + "images: [{name: $R, digest: $B}] # ä\n",
		},
		"a component in the overlay": {
			file: "overlay/images/kustomization.yaml", more: map[string]string{"overlay/kustomization.yaml": "resources: [../base]\ncomponents: [../component, images]\n"},
			before: "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nimages:\n  - name: $R\n    digest: $A\n",
			after:  "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nimages:\n  - name: $R\n    digest: $B\n",
		},
		"a patch in a file": {
			file: "overlay/p.yaml", more: map[string]string{"overlay/kustomization.yaml": top + "patches: [{path: p.yaml}]\n"},
			before: "# c\n" + workload("web", "'$R:1@$A' # d"), after: "# c\n" + workload("web", "'$R@$B' # d"),
		},
		"a patch as a block": {
			before: top + "patches:\n- patch: |-\n    # c\n    apiVersion: sluice.dev/v1beta1\n    kind: Workload\n    metadata: {name: web, namespace: shop}\n    spec:\n      image: \"$R@$A\" # d\n- {path: q.yaml}\n",
			after:  top + "patches:\n- patch: |-\n    # c\n    apiVersion: sluice.dev/v1beta1\n    kind: Workload\n    metadata: {name: web, namespace: shop}\n    spec:\n      image: \"$R@$B\" # d\n- {path: q.yaml}\n",
			more:   map[string]string{"overlay/q.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 2}\n"},
		},
		"a patch of operations": {
			before: top + "patches:\n- target: {kind: Workload, name: web}\n  patch: '[{\"op\": \"replace\", \"path\": \"/spec/image\", \"value\": \"$R@$A\"}]'\n",
			after:  top + "patches:\n- target: {kind: Workload, name: web}\n  patch: '[{\"op\": \"replace\", \"path\": \"/spec/image\", \"value\": \"$R@$B\"}]'\n",
		},
		"a patch of operations with escapes": {
			before: top + "patches:\n- target: {kind: Workload, name: web}\n  patch: \"[{\\\"op\\\": \\\"replace\\\", \\\"path\\\": \\\"/spec/image\\\", \\\"value\\\": \\\"$R@$A\\\"}]\\n\"\n",
			after:  top + "patches:\n- target: {kind: Workload, name: web}\n  patch: \"[{\\\"op\\\": \\\"replace\\\", \\\"path\\\": \\\"/spec/image\\\", \\\"value\\\": \\\"$R@$B\\\"}]\\n\"\n",
		},
		"operations in a file": {
			file: "overlay/p.yaml", more: map[string]string{"overlay/kustomization.yaml": top + "patches: [{path: p.yaml, target: {kind: Workload}}]\n"},
			before: "- op: add\n  path: /spec/replicas\n  value: 2\n- op: replace\n  path: /spec/image\n  value: >-\n    $R@$A\n",
			after:  "- op: add\n  path: /spec/replicas\n  value: 2\n- op: replace\n  path: /spec/image\n  value: >-\n    $R@$B\n",
		},
		"the object itself": {
			file: "overlay/web.yaml", more: map[string]string{"overlay/kustomization.yaml": "resources: [web.yaml]\n"},
			before: workload("web", "|-\n    $R:1@$A\n\n"), after: workload("web", "|-\n    $R@$B\n\n"),
		},
		"an object with a tag that is to be written": {
			file: "overlay/web.yaml", more: map[string]string{"overlay/kustomization.yaml": "resources: [web.yaml]\n"}, tag: "1.1",
			before: "---\n# c\n---\n" + workload("web", "!!str $R:1.0"), after: "---\n# c\n---\n" + workload("web", "!!str $R:1.1@$B"),
		},
		"a base that others share": {
			before: top + "images:\n  - name: other\n    newTag: x # c\n# d\nnamePrefix: a-\n",
			after:  top + "images:\n  - name: other\n    newTag: x # c\n  - name: $R\n    digest: $B\n# d\nnamePrefix: a-\n",
		},
		"a base that others share, with images in flow style": {
			before: top + "images: [{name: other, newTag: 'x]'}, # c\n  ]\n", tag: "v2",
			after: top + "images: [{name: other, newTag: 'x]'}, {name: $R, newTag: v2, digest: $B}, # c\n  ]\n",
		},
		"a base that others share, and no images": {
			before: "resources:\n- ../base\ncomponents:\n- ../component", after: "resources:\n- ../base\ncomponents:\n- ../component\nimages:\n- name: $R\n  digest: $B",
		},
		"a base that others share, all in flow style": {
			before: "{resources: [../base], components: [../component]} # c\n",
			after:  "{resources: [../base], components: [../component], images: [{name: $R, digest: $B}]} # c\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := c.file
			if file == "" {
				file = "overlay/kustomization.yaml"
			}
			files := map[string]string{file: fill(c.before)}
			for more, content := range c.more {
				files[more] = content
			}
			dir := fleet(t, files)
			set := load(t, dir, "overlay")
			var o overlay.Object
			for _, candidate := range set.Objects {
				if candidate.GetKind() == "Workload" {
					o = candidate
				}
			}
			got, err := pin.Change(set, pin.Want{Object: o, Digest: digestB, Tag: c.tag})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Files) != 1 || string(got.Files[file]) != fill(c.after) {
				t.Fatalf("%d files, this one now:\n%s\nwanted:\n%s", len(got.Files), got.Files[file], fill(c.after))
			}
			write(t, dir, file, string(got.Files[file]))
			again := load(t, dir, "overlay")
			now, err := pin.Read(again, object(t, again, o.GetName()))
			if err != nil || now.Digest != digestB || now.Tag != c.tag || !now.Own {
				t.Errorf("pinned now: %+v: %v", now, err)
			}
			same, err := pin.Change(again, pin.Want{Object: o, Digest: digestB, Tag: c.tag})
			if err != nil || len(same.Files) != 0 {
				t.Errorf("a second time: %v: %v", same, err)
			}
		})
	}
}
