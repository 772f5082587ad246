package pin_test

import (
	"encoding/json"
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
		"an object in a list": {
			file: "overlay/all.yaml", more: map[string]string{"overlay/kustomization.yaml": "resources: [all.yaml]\n"},
			before: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {image: $R@$A}}\n- apiVersion: sluice.dev/v1beta1\n  kind: Workload\n  metadata: {name: web, namespace: shop}\n  spec: {image: $R@$A}\n",
			after:  "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {image: $R@$A}}\n- apiVersion: sluice.dev/v1beta1\n  kind: Workload\n  metadata: {name: web, namespace: shop}\n  spec: {image: $R@$B}\n",
		},
		"an object in JSON": {
			file: "overlay/web.json", more: map[string]string{"overlay/kustomization.yaml": "resources: [web.json]\n"},
			before: "{\n\t\"apiVersion\": \"sluice.dev/v1beta1\", \"kind\": \"Workload\",\n\t\"metadata\": {\"name\": \"web\", \"namespace\": \"shop\"},\n\t\"spec\": {\"image\": \"$R@$A\"}\n}\n",
			after:  "{\n\t\"apiVersion\": \"sluice.dev/v1beta1\", \"kind\": \"Workload\",\n\t\"metadata\": {\"name\": \"web\", \"namespace\": \"shop\"},\n\t\"spec\": {\"image\": \"$R@$B\"}\n}\n",
		},
		"an entry that takes its digest from another": {
			before: top + "images:\n- &e\n  name: other\n  digest: $A\n- <<: *e\n  name: $R # c\n",
			after:  top + "images:\n- &e\n  name: other\n  digest: $A\n- <<: *e\n  name: $R # c\n  digest: $B\n",
		},
		"an entry with another name for the image": {
			before: top + "images:\n- {name: $R, newName: mirror.example.com/web}\n", after: top + "images:\n- {name: $R, newName: mirror.example.com/web, digest: $B}\n",
		},
		"the last of two entries": {
			before: top + "images:\n- {name: $R, newTag: v1}\n- {name: $R, digest: $A}\n", after: top + "images:\n- {name: $R, newTag: v1}\n- {name: $R, digest: $B}\n",
		},
		"a patch of the old kind": {
			file: "overlay/p.yaml", more: map[string]string{"overlay/kustomization.yaml": top + "patchesStrategicMerge: [p.yaml]\n"},
			before: workload("web", "$R@$A"), after: workload("web", "$R@$B"),
		},
		"a patch as a block with line ends of Windows": {
			before: "resources: [../base]\r\npatches:\r\n- target: {kind: Workload}\r\n  patch: |\r\n    - op: replace\r\n      path: /spec/image\r\n      value: $R@$A\r\n",
			after:  "resources: [../base]\r\npatches:\r\n- target: {kind: Workload}\r\n  patch: |\r\n    - op: replace\r\n      path: /spec/image\r\n      value: $R@$B\r\n",
		},
		"a base that others share, with line ends of Windows": {
			before: "resources: [../base]\r\ncomponents: [../component]\r\nimages:\r\n  - name: other\r\n    newTag: x\r\n",
			after:  "resources: [../base]\r\ncomponents: [../component]\r\nimages:\r\n  - name: other\r\n    newTag: x\r\n  - name: $R\r\n    digest: $B\r\n",
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

func TestChange_OfJSONIsJSON(t *testing.T) {
	for name, more := range map[string]string{
		"no images":             "",
		"no entry":              `, "images": []`,
		"an entry of another":   `, "images": [{"name": "other", "newTag": "1"}]`,
		"an entry without more": `, "images": [{"name": "$R"}]`,
		"an entry with a tag":   `, "images": [{"name": "$R", "newTag": "1.0"}]`,
		"an entry":              `, "images": [{"name": "$R", "digest": "$A"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := fleet(t, map[string]string{"prod/kustomization.yaml": fill("{\n\t\"components\": [\"../component\"],\n\t\"resources\": [\"../base\"]" + more + "\n}\n")})
			set := load(t, dir, "prod")
			changed, err := pin.Change(set, pin.Want{Object: object(t, set, "web"), Digest: digestB, Tag: "1.1"})
			if err != nil {
				t.Fatal(err)
			}
			if got := changed.Files["prod/kustomization.yaml"]; !json.Valid(got) {
				t.Errorf("it is no JSON:\n%s", got)
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

func TestChange_ChangesManyAtOnceEachWhereItIsPinnedLast(t *testing.T) {
	// The patch of the api has no say: the entry that comes after it has the same digest.
	kustomization := top + "patches: [{path: p.yaml}]\nimages:\n- {name: $R, digest: $A}\n- {name: r.io/api, digest: $A}\n"
	dir := fleet(t, map[string]string{
		"base/kustomization.yaml":    "resources: [web.yaml, api.yaml, job.yaml]\n",
		"base/api.yaml":              workload("api", "r.io/api"),
		"base/job.yaml":              workload("job", "r.io/job"),
		"overlay/kustomization.yaml": fill(kustomization),
		"overlay/p.yaml":             fill(workload("api", "r.io/api@$A")),
	})
	set := load(t, dir, "overlay")
	var wants []pin.Want
	for _, name := range []string{"web", "api", "job"} {
		wants = append(wants, pin.Want{Object: object(t, set, name), Digest: digestB})
	}
	got, err := pin.Change(set, wants...)
	if err != nil {
		t.Fatal(err)
	}
	want := fill(strings.ReplaceAll(kustomization, "$A", "$B") + "- {name: r.io/job, digest: $B}\n")
	if len(got.Files) != 1 || string(got.Files["overlay/kustomization.yaml"]) != want {
		t.Errorf("%d files:\n%s", len(got.Files), got.Files["overlay/kustomization.yaml"])
	}
	for _, w := range wants {
		if now, err := pin.Read(got.After, object(t, got.After, w.Object.GetName())); err != nil || now.Digest != digestB {
			t.Errorf("%s: %+v: %v", w.Object.GetName(), now, err)
		}
	}
}
