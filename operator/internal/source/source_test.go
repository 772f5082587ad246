package source_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/source"
)

const (
	deployment = `# a comment
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  replicas: 1
  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
      - name: app
        image: nginx:1@sha256:1621aaafd8e1097cefd3e11d011554ab7acaa16f1c4e66ff300968d2f8a8ca66
        env:
        - {name: A, value: base-a}
        - {name: B, value: base-b}
`
	workload = `apiVersion: sluice.dev/v1beta1
kind: Workload
metadata: {name: web, namespace: shop}
spec:
  image: registry.example.com/shop/web:1
  env:
  - {name: A, value: base-a}
  - {name: B, value: base-b}
`
	base  = "resources: [web.yaml]\n"
	above = "resources: [../base]\n"
	image = "spec.template.spec.containers[0].image"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// find builds what is at path and looks for a field of the first object of a kind.
func find(t *testing.T, dir, path, kind, field string) (place struct {
	file, field, note string
	line, column      int
	code              []string
}, built map[string]any) {
	t.Helper()
	set, err := overlay.Load(dir, filepath.Join(dir, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range set.Objects {
		if o.GetKind() == kind {
			p := source.New(set.Files, set.Kustomization, set.Shown).Find(source.Object{Content: o.Object, Path: o.Path}, field)
			rel, err := filepath.Rel(dir, p.File)
			if err != nil {
				t.Fatal(err)
			}
			place.file, place.field, place.note, place.line, place.column, place.code = rel, p.Field, p.Note, p.Line, p.Column, p.Code
			return place, o.Object
		}
	}
	t.Fatalf("no %s is built", kind)
	return
}

// where each case has to point: the first line of a file that has the text.
type where struct{ file, text, field string }

var cases = map[string]struct {
	files       map[string]string
	path        string
	kind, field string
	want        where
	// note has to be said where the place is not the field's own.
	note string
}{
	"a file": {map[string]string{"in/web.yaml": "---\n" + workload}, "in", "Workload", "spec.image", where{"in/web.yaml", "image:", "spec.image"}, ""},
	"a second document": {map[string]string{"in/web.yaml": "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n" + workload}, "in", "Workload", "spec.image",
		where{"in/web.yaml", "image:", "spec.image"}, ""},
	"a list": {map[string]string{"in/web.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: sluice.dev/v1beta1\n  kind: Workload\n  metadata: {name: web}\n  spec:\n    image: a\n"}, "in", "Workload", "spec.image",
		where{"in/web.yaml", "image:", "spec.image"}, ""},
	"JSON": {map[string]string{"in/web.json": "{\"apiVersion\": \"sluice.dev/v1beta1\", \"kind\": \"Workload\",\n \"metadata\": {\"name\": \"web\"},\n \"spec\": {\n  \"image\": \"a\"}}"}, "in", "Workload", "spec.image",
		where{"in/web.json", `"image"`, "spec.image"}, ""},
	"an alias": {map[string]string{"in/web.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web}\nspec:\n  version: &v a\n  image: *v\n"}, "in", "Workload", "spec.image",
		where{"in/web.yaml", "image: *v", "spec.image"}, ""},
	"a field that is not set": {map[string]string{"in/web.yaml": workload}, "in", "Workload", "spec.resources.limits.memory", where{"in/web.yaml", "spec:", "spec"}, "spec.resources.limits.memory, which is not set"},
	"the whole object":        {map[string]string{"in/web.yaml": "# c\n" + workload}, "in", "Workload", "", where{"in/web.yaml", "apiVersion", ""}, ""},
	"a base":                  {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above}, "o", "Deployment", image, where{"base/web.yaml", "image:", image}, ""},
	"a tag by images, over a digest": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "images:\n- name: nginx\n  newTag: v2\n"}, "o", "Deployment", image,
		where{"o/kustomization.yaml", "newTag", "images[0].newTag"}, ""},
	"images in two layers": {map[string]string{"base/kustomization.yaml": base + "images:\n- {name: nginx, newTag: v1}\n", "base/web.yaml": deployment,
		"o/kustomization.yaml": above + "images:\n- name: other\n  newTag: v9\n- name: nginx\n  newName: mirror.example.com/nginx\n"}, "o", "Deployment", image, where{"o/kustomization.yaml", "newName", "images[1].newName"}, ""},
	"images that do not reach a Workload": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": workload, "o/kustomization.yaml": above + "images:\n- {name: registry.example.com/shop/web, newTag: v2}\n"}, "o", "Workload", "spec.image",
		where{"base/web.yaml", "image:", "spec.image"}, ""},
	"images that reach it by a configuration": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": workload, "o/c.yaml": "images:\n- {path: spec/image, kind: Workload}\n",
		"o/kustomization.yaml": above + "configurations: [c.yaml]\nimages:\n- name: registry.example.com/shop/web\n  newTag: v2\n"}, "o", "Workload", "spec.image", where{"o/kustomization.yaml", "newTag", "images[0].newTag"}, ""},
	"a strategic merge patch": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "patches: [{path: p.yaml}]\n",
		"o/p.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  template:\n    spec:\n      containers:\n      - {name: first, image: b}\n      - name: app\n        image: a\n"}, "o", "Deployment",
		image, where{"o/p.yaml", "image: b", "spec.template.spec.containers[0].image"}, ""},
	"a container that a patch moved": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "patches: [{path: p.yaml}]\n",
		"o/p.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  template:\n    spec:\n      containers:\n      - {name: first, image: b}\n"}, "o", "Deployment",
		"spec.template.spec.containers[1].image", where{"base/web.yaml", "image:", image}, ""},
	"a patch in the text": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment,
		"o/kustomization.yaml": above + "patches:\n- patch: |-\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: web, namespace: shop}\n    spec:\n      replicas: 5\n"}, "o", "Deployment", "spec.replicas",
		where{"o/kustomization.yaml", "replicas: 5", "patches[0].patch: spec.replicas"}, ""},
	"a patch in the text, folded": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment,
		"o/kustomization.yaml": above + "patches:\n- target: {kind: Deployment}\n  patch: '[{\"op\": \"replace\", \"path\": \"/spec/replicas\", \"value\": 5}]'\n"}, "o", "Deployment", "spec.replicas",
		where{"o/kustomization.yaml", "'[{", "patches[0].patch: [0].value"}, ""},
	"a JSON 6902 patch": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "patches:\n- path: p.yaml\n  target: {kind: Deploy.*, name: web}\n",
		"o/p.yaml": "- op: test\n  path: /spec/replicas\n  value: 1\n- op: replace\n  path: /spec/template/spec/containers/0/image\n  value: z\n"}, "o", "Deployment", image, where{"o/p.yaml", "value: z", "[1].value"}, ""},
	"an entry that a JSON 6902 patch adds": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "patches:\n- path: p.yaml\n  target: {kind: Deployment}\n",
		"o/p.yaml": "- op: add\n  path: /spec/template/spec/containers/-\n  value:\n    name: x\n    image: z\n"}, "o", "Deployment", "spec.template.spec.containers[1].image", where{"o/p.yaml", "image: z", "[0].value: image"}, ""},
	"the later of two patches": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment,
		"o/kustomization.yaml": above + "patches:\n- {path: p.yaml}\n- {path: q.yaml}\n",
		"o/p.yaml":             "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 4}\n",
		"o/q.yaml":             "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: 4\n"}, "o", "Deployment", "spec.replicas", where{"o/q.yaml", "replicas", "spec.replicas"}, ""},
	"a patch for another object": {map[string]string{"base/kustomization.yaml": "resources: [web.yaml, other.yaml]\n", "base/web.yaml": deployment, "base/other.yaml": strings.ReplaceAll(deployment, "name: web", "name: other"),
		"o/kustomization.yaml": above + "patches:\n- {path: p.yaml}\n", "o/p.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: other, namespace: shop}\nspec: {replicas: 1}\n"}, "o", "Deployment", "spec.replicas",
		where{"base/web.yaml", "replicas", "spec.replicas"}, ""},
	"a list of a custom resource, replaced whole": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": workload, "o/kustomization.yaml": above + "patches: [{path: p.yaml}]\n",
		"o/p.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec:\n  env:\n  - name: B\n    value: mine\n"}, "o", "Workload", "spec.env[0].value", where{"o/p.yaml", "value: mine", "spec.env[0].value"}, ""},
	"replicas": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "replicas:\n- name: web\n  count: 7\n"}, "o", "Deployment", "spec.replicas",
		where{"o/kustomization.yaml", "count", "replicas[0].count"}, ""},
	"namespace": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "namespace: prod\n"}, "o", "Deployment", "metadata.namespace",
		where{"o/kustomization.yaml", "namespace", "namespace"}, ""},
	"labels": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "labels:\n- pairs:\n    team: shop\n"}, "o", "Deployment", "metadata.labels.team",
		where{"o/kustomization.yaml", "team", "labels[0].pairs.team"}, ""},
	"a component": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "o/kustomization.yaml": above + "components: [../c]\n",
		"c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nreplicas:\n- name: web\n  count: 9\n"}, "o", "Deployment", "spec.replicas", where{"c/kustomization.yaml", "count", "replicas[0].count"}, ""},
	"a name with a prefix, among others": {map[string]string{"base/kustomization.yaml": "namePrefix: a-\n" + base, "base/web.yaml": strings.ReplaceAll(deployment, "name: web", "name: one") + "---\n" + deployment, "o/kustomization.yaml": above + "nameSuffix: -z\nreplicas:\n- name: one\n  count: 2\n"},
		"o", "Deployment", "spec.replicas", where{"o/kustomization.yaml", "count", "replicas[0].count"}, ""},
	"what a replacement set": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment,
		"o/kustomization.yaml": above + "replacements:\n- source: {kind: Deployment, fieldPath: metadata.name}\n  targets: [{select: {kind: Deployment}, fieldPaths: [spec.template.spec.containers.0.image]}]\n"}, "o", "Deployment", image,
		where{"base/web.yaml", "apiVersion", ""}, "not sure"},
	"a patch by label": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment,
		"o/kustomization.yaml": above + "patches:\n- target: {kind: Deployment, labelSelector: team=a}\n  patch: '[{\"op\": \"replace\", \"path\": \"/spec/replicas\", \"value\": 1}]'\n"}, "o", "Deployment", "spec.replicas", where{"base/web.yaml", "apiVersion", ""}, "not sure"},
	"a base that is used twice": {map[string]string{"base/kustomization.yaml": base, "base/web.yaml": deployment, "a/kustomization.yaml": above + "namePrefix: a-\n", "b/kustomization.yaml": above + "namePrefix: b-\n",
		"o/kustomization.yaml": "resources: [../a, ../b]\n"}, "o", "Deployment", "spec.replicas", where{"base/web.yaml", "apiVersion", ""}, "more than one way"},
}

func TestFind_PointsToWhatSetTheFieldLast(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, c.files)
			got, built := find(t, dir, c.path, c.kind, c.field)
			line, column := 0, 0
			for i, l := range strings.Split(c.files[c.want.file], "\n") {
				if at := strings.Index(l, c.want.text); at >= 0 && line == 0 {
					line, column = i+1, at+1
				}
			}
			if got.file != c.want.file || got.line != line || got.field != c.want.field {
				t.Errorf("%s:%d:%d %q (%s), and not %s:%d:%d %q", got.file, got.line, got.column, got.field, got.note, c.want.file, line, column, c.want.field)
			}
			if c.note == "" && got.note != "" || !strings.Contains(got.note, c.note) {
				t.Errorf("note: %q", got.note)
			}
			if len(got.code) == 0 {
				t.Error("no code")
			}
			if got.note == "" && c.field != "" {
				changes(t, dir, c.path, c.kind, c.field, built)
			}
		})
	}
}

// changes is the proof of a place: whoever edits the value there changes the field.
func changes(t *testing.T, dir, path, kind, field string, built map[string]any) {
	t.Helper()
	place, _ := find(t, dir, path, kind, field)
	file := filepath.Join(dir, place.file)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	lines[place.line-1] = edited(lines[place.line-1], place.column)
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	_, after := find(t, dir, path, kind, strings.Split(field, ".")[0])
	if before := fmt.Sprint(built); before == fmt.Sprint(after) {
		t.Errorf("editing %s:%d to %q changes nothing", place.file, place.line, lines[place.line-1])
	}
}

var quotedOrPlain = regexp.MustCompile(`^((?:"?[\w./-]+"?:\s*)?\*?"?)([^"',}\]\s]+)`)

// edited changes the value that stands at a column, behind its key.
func edited(line string, column int) string {
	head, tail := line[:column-1], line[column-1:]
	if strings.Contains(tail, `"value": 5`) {
		return head + strings.Replace(tail, `"value": 5`, `"value": 6`, 1)
	}
	m := quotedOrPlain.FindStringSubmatchIndex(tail)
	if strings.Contains(tail, "*v") {
		return head + "image: changed"
	}
	old := tail[m[4]:m[5]]
	if n, err := strconv.Atoi(old); err == nil {
		return head + tail[:m[4]] + strconv.Itoa(n+1) + tail[m[5]:]
	}
	if at := strings.LastIndex(old, "@"); at > 0 {
		old = old[:at]
	}
	return head + tail[:m[4]] + old + "x" + tail[m[5]:]
}

// TestFind_EditingTheLineChangesTheField builds overlays of parts put together at random,
// and holds every place that is said to be sure against an edit of its line.
func TestFind_EditingTheLineChangesTheField(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	merge := func(body string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n" + body
	}
	parts := []func(i int) (string, map[string]string){
		func(i int) (string, map[string]string) {
			return "images:\n- name: nginx\n  newTag: t" + strconv.Itoa(i) + "\n", nil
		},
		func(i int) (string, map[string]string) {
			return "images:\n- name: app\n  newName: nginx\n- name: nginx\n  newName: app\n", nil
		},
		func(i int) (string, map[string]string) {
			return "replicas:\n- name: web\n  count: " + strconv.Itoa(i) + "\n", nil
		},
		func(i int) (string, map[string]string) {
			return "patches:\n- path: p.yaml\n", map[string]string{"p.yaml": merge("  replicas: " + strconv.Itoa(i) + "\n  template:\n    spec:\n      containers:\n      - name: app\n        image: nginx:p" + strconv.Itoa(i) + "\n")}
		},
		func(i int) (string, map[string]string) {
			return "patches:\n- path: p.yaml\n- path: q.yaml\n  target: {kind: Deployment}\n", map[string]string{
				"p.yaml": merge("  template:\n    spec:\n      containers:\n      - name: side\n        image: nginx:s" + strconv.Itoa(i) + "\n"),
				"q.yaml": "- op: replace\n  path: /spec/template/spec/containers/0/image\n  value: app:q" + strconv.Itoa(i) + "\n- op: add\n  path: /spec/replicas\n  value: " + strconv.Itoa(i+10) + "\n"}
		},
		func(i int) (string, map[string]string) { return "components: [../c]\n", nil },
		func(i int) (string, map[string]string) { return "", nil },
	}
	sure := 0
	for range 24 {
		dir := t.TempDir()
		files := map[string]string{
			"l0/kustomization.yaml": base, "l0/web.yaml": strings.ReplaceAll(deployment, "nginx:1@sha256:1621aaafd8e1097cefd3e11d011554ab7acaa16f1c4e66ff300968d2f8a8ca66", "nginx:1"),
			"c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- target: {kind: Deployment}\n  patch: |\n    - op: replace\n      path: /spec/replicas\n      value: 33\n",
		}
		depth := 1 + random.IntN(3)
		for l := 1; l <= depth; l++ {
			text, more := parts[random.IntN(len(parts))](random.IntN(3) + 2)
			folder := fmt.Sprintf("l%d/", l)
			files[folder+"kustomization.yaml"] = fmt.Sprintf("resources: [../l%d]\n", l-1) + text
			for n, c := range more {
				files[folder+n] = c
			}
		}
		write(t, dir, files)
		for _, field := range []string{image, "spec.replicas", "spec.template.spec.containers[1].image"} {
			got, built := find(t, dir, fmt.Sprintf("l%d", depth), "Deployment", field)
			if got.note != "" {
				continue
			}
			sure++
			raw, err := os.ReadFile(filepath.Join(dir, got.file))
			if err != nil {
				t.Fatal(err)
			}
			changes(t, dir, fmt.Sprintf("l%d", depth), "Deployment", field, built)
			write(t, dir, map[string]string{got.file: string(raw)})
			if t.Failed() {
				t.Fatalf("field %s, place %+v, files\n%v", field, got, files)
			}
		}
	}
	if sure < 40 {
		t.Errorf("only %d places are sure", sure)
	}
}

func TestFind_ShowsNoLineOfALongerText(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"in/web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  key: |\n    SECRET1\n    SECRET2\n  after: b\n"})
	for _, field := range []string{"data.key", "data.after", "metadata.name"} {
		got, _ := find(t, dir, "in", "ConfigMap", field)
		if len(got.code) < 2 && field != "data.after" || strings.Contains(strings.Join(got.code, "\n"), "SECRET") {
			t.Errorf("%s: %q", field, got.code)
		}
	}
}

// TestFind_ShowsTheMetadataBesideAField: names and labels tell a reader which object it is.
func TestFind_ShowsTheMetadataBesideAField(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"in/web.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels:\n    app: web\n  annotations:\n    note: SECRET\nspec:\n  userData: SECRET\n  hostPID: true\n"})
	for field, want := range map[string][]string{
		"metadata.labels.app":       {"  labels:", "    app: web", "  annotations:"},
		"metadata.annotations.note": {"  annotations:", "    note: …", "spec:"},
		"spec.hostPID":              {"…", "  hostPID: true"},
	} {
		if got, _ := find(t, dir, "in", "Pod", field); !slices.Equal(got.code, want) {
			t.Errorf("%s: %q, want %q", field, got.code, want)
		}
	}
}

// Every finding asks for what its file holds: with each file looked at for each of them, a
// fleet of which much is denied would take the square of its size.
func TestContents_LooksAtTheNamesOnce(t *testing.T) {
	const n = 50
	files := map[string][]byte{}
	for i := range n {
		files[fmt.Sprintf("%d.yaml", i)] = fmt.Appendf(nil, "a: %d\n---\nb: %d\n", i, i)
	}
	asked := 0
	sources := source.New(files, "", func(name string) string { asked++; return "shown/" + name })
	for i := range n {
		got := fmt.Sprint(sources.Contents(fmt.Sprintf("shown/%d.yaml", i)))
		if want := fmt.Sprintf("[map[a:%d] map[b:%d]]", i, i); got != want {
			t.Errorf("file %d holds %s, want %s", i, got, want)
		}
	}
	if got := sources.Contents("0.yaml"); got != nil {
		t.Errorf("a name that is not shown so holds %v", got)
	}
	if asked != n {
		t.Errorf("names of %d files were asked for %d times", n, asked)
	}
}
