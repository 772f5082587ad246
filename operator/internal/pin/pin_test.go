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

func TestChange_SaysWhatWasEditedAndWhatWasNot(t *testing.T) {
	dir := fleet(t, map[string]string{
		"base/web.yaml":              fill(workload("web", "$R@$A") + "  version: 1.0.0\n"),
		"overlay/kustomization.yaml": top,
	})
	set := load(t, dir, "overlay")
	now, err := pin.Read(set, object(t, set, "web"))
	if err != nil || now.Own || now.Digest != digestA || now.Version != "1.0.0" || now.Repository != repo || !strings.HasSuffix(now.Place.String(), "base/web.yaml:5:3") {
		t.Fatalf("%+v: %v", now, err)
	}
	got, err := pin.Change(set, pin.Want{Object: object(t, set, "web"), Digest: digestB, Version: "2.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(append(got.Edits, got.Notes...), "\n")
	for _, want := range []string{"overlay/kustomization.yaml:3: an entry of images is added", "base/web.yaml:5:3, which other overlays may use", `spec.version stays "1.0.0"`, "base/web.yaml:6:3"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said:\n%s", want, said)
		}
	}
	if o := object(t, got.After, "web"); len(got.Files) != 1 || got.Files["base/web.yaml"] != nil || !strings.Contains(o.GetName(), "web") {
		t.Errorf("files: %v", got.Files)
	}
}

func TestChange_WritesTheVersionWhereTheOverlaySetsIt(t *testing.T) {
	patch := "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {image: $R@$A, version: '1.0.0'} # c\n"
	dir := fleet(t, map[string]string{"overlay/kustomization.yaml": top + "patches: [{path: p.yaml}]\n", "overlay/p.yaml": fill(patch)})
	set := load(t, dir, "overlay")
	for name, c := range map[string]struct {
		want  pin.Want
		after string
	}{
		"image and version": {pin.Want{Digest: digestB, Version: "1.1.0"}, strings.NewReplacer("$A", "$B", "1.0.0", "1.1.0").Replace(patch)},
		"the version alone": {pin.Want{Digest: digestA, Version: "1.1.0"}, strings.ReplaceAll(patch, "1.0.0", "1.1.0")},
		"the image alone":   {pin.Want{Digest: digestB}, strings.ReplaceAll(patch, "$A", "$B")},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Object = object(t, set, "web")
			got, err := pin.Change(set, c.want)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Files) != 1 || string(got.Files["overlay/p.yaml"]) != fill(c.after) {
				t.Errorf("%d files:\n%s", len(got.Files), got.Files["overlay/p.yaml"])
			}
		})
	}
}

// two are Workloads that share a repository and, in the overlay, an entry of images.
func two(t *testing.T) *overlay.Set {
	t.Helper()
	dir := fleet(t, map[string]string{
		"base/kustomization.yaml":    "resources: [web.yaml, worker.yaml]\n",
		"base/worker.yaml":           workload("worker", repo),
		"overlay/kustomization.yaml": fill(top + "images:\n- name: $R\n  digest: $A\n"),
	})
	return load(t, dir, "overlay")
}

func TestChange_OfAPinThatTwoShareTakesBoth(t *testing.T) {
	set := two(t)
	web, worker := object(t, set, "web"), object(t, set, "worker")
	for name, c := range map[string]struct {
		wants []pin.Want
		says  string
	}{
		"one of them":         {[]pin.Want{{Object: web, Digest: digestB}}, "Workload/shop/worker: it would change along with Workload/shop/web"},
		"both, each another":  {[]pin.Want{{Object: web, Digest: digestB}, {Object: worker, Digest: "sha256:" + strings.Repeat("c", 64)}}, "shall become different images"},
		"both, one stays":     {[]pin.Want{{Object: web, Digest: digestB}, {Object: worker, Digest: digestA}}, "shall become different images"},
		"both, another tag":   {[]pin.Want{{Object: web, Digest: digestB, Tag: "a"}, {Object: worker, Digest: digestB, Tag: "b"}}, "shall become different images"},
		"both to the same":    {[]pin.Want{{Object: web, Digest: digestB}, {Object: worker, Digest: digestB}}, ""},
		"both, with one tag":  {[]pin.Want{{Object: web, Digest: digestB, Tag: "v1"}, {Object: worker, Digest: digestB, Tag: "v1"}}, ""},
		"both, as it is now":  {[]pin.Want{{Object: web, Digest: digestA}, {Object: worker, Digest: digestA}}, ""},
		"one, the other not":  {[]pin.Want{{Object: worker, Digest: digestA}}, ""},
		"one that is no more": {[]pin.Want{{Object: gone(web), Digest: digestA}}, "the overlay does not have it"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pin.Change(set, c.wants...)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.wants {
				if now, err := pin.Read(got.After, object(t, got.After, w.Object.GetName())); err != nil || now.Digest != w.Digest || now.Tag != w.Tag {
					t.Errorf("%s: %+v: %v", w.Object.GetName(), now, err)
				}
			}
		})
	}
}

func gone(o overlay.Object) overlay.Object {
	o.Unstructured = o.DeepCopy()
	o.SetName("gone")
	return o
}

func TestChange_LetsMoveAlongWhatIsTheSameImage(t *testing.T) {
	dir := fleet(t, map[string]string{
		"base/web.yaml":              workload("web", repo) + "  backup: {image: " + repo + ", schedule: '@daily'}\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\nspec: {template: {spec: {containers: [{name: a, image: " + repo + "}]}}}\n",
		"overlay/kustomization.yaml": fill(top + "images:\n- name: $R\n  digest: $A\n"),
	})
	set := load(t, dir, "overlay")
	got, err := pin.Change(set, pin.Want{Object: object(t, set, "web"), Digest: digestB})
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(got.Notes, "\n")
	for _, want := range []string{"Workload/shop/web spec.backup.image moves along", "Job/migrate spec.template.spec.containers[0].image moves along"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said: %s", want, said)
		}
	}
}

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

func TestRead_OfAFileOfManifestsAndOfAnOverlayWithTwoKustomizations(t *testing.T) {
	dir := fleet(t, map[string]string{"plain/web.yaml": fill("# c\n" + workload("web", "$R:1@$A") + "---\n" + workload("worker", "$R@$A"))})
	set := load(t, dir, "plain")
	got, err := pin.Change(set, pin.Want{Object: object(t, set, "worker"), Digest: digestB, Tag: "v2"})
	if err != nil {
		t.Fatal(err)
	}
	if want := fill("# c\n" + workload("web", "$R:1@$A") + "---\n" + workload("worker", "$R:v2@$B")); string(got.Files["plain/web.yaml"]) != want {
		t.Errorf("%s", got.Files["plain/web.yaml"])
	}
	write(t, dir, "overlay/kustomization.yaml", top)
	write(t, dir, "overlay/kustomization.yml", top)
	if _, err := overlay.Load(dir, filepath.Join(dir, "overlay"), nil); err == nil || !strings.Contains(err.Error(), "multiple kustomization files") {
		t.Errorf("error: %v", err)
	}
}

func TestChange_LeavesABaseInTheOverlaysFolderThatOthersUse(t *testing.T) {
	images := fill("apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nimages: [{name: $R, digest: $A}]\n")
	for name, c := range map[string]struct {
		other string
		file  string
	}{
		"its folder":               {"resources: [../base]\ncomponents: [../overlay/images]\n", "overlay/kustomization.yaml"},
		"nobody":                   {"resources: [../base]\n", "overlay/images/kustomization.yaml"},
		"the overlay as it is":     {"resources: [../overlay]\n", "overlay/images/kustomization.yaml"},
		"a file that is no YAML":   {"resources: [", "overlay/images/kustomization.yaml"},
		"a folder of the same end": {"resources: [../base]\ncomponents: [images]\n", "overlay/images/kustomization.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fleet(t, map[string]string{
				"overlay/kustomization.yaml": "resources: [../base]\ncomponents: [../component, images]\n", "overlay/images/kustomization.yaml": images,
				"other/kustomization.yaml": c.other,
			})
			set := load(t, dir, "overlay")
			got, err := pin.Change(set, pin.Want{Object: object(t, set, "web"), Digest: digestB})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Files) != 1 || got.Files[c.file] == nil {
				t.Errorf("files: %s", got.Files)
			}
		})
	}
}
