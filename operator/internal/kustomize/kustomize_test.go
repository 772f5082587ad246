package kustomize_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// hostile has a schema with nothing but a CRD. Kustomize keeps it for the process, and
// then merges the containers of a StatefulSet as if they were a plain list.
var hostile = map[string]string{
	"kustomization.yaml": "resources: [x.yaml]\nopenapi: {path: schema.json}\n",
	"x.yaml":             "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n",
	"schema.json": `{"definitions": {"com.example.v1.Thing": {"type": "object",
		"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Thing"}]}}}`,
}

var innocent = map[string]string{
	"kustomization.yaml": "resources: [x.yaml]\npatches: [{path: p.yaml}]\n",
	"x.yaml": `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  template:
    spec:
      containers:
      - {name: app, image: registry.example.com/db:1}
      - {name: sidecar, image: registry.example.com/log:1}
`,
	"p.yaml": `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  template:
    spec:
      containers:
      - {name: app, env: [{name: A, value: b}]}
`,
}

func build(files map[string]string) (string, error) {
	fsys := filesys.MakeFsInMemory()
	for name, content := range files {
		if err := fsys.WriteFile("/o/"+name, []byte(content)); err != nil {
			return "", err
		}
	}
	built, err := kustomize.Build(fsys, "/o", nil)
	if err != nil {
		return "", err
	}
	raw, err := built.AsYaml()
	return string(raw), err
}

// whole says what the patch lost.
func whole(out string) error {
	for _, want := range []string{"image: registry.example.com/db:1", "name: sidecar", "image: registry.example.com/log:1", "name: A"} {
		if !strings.Contains(out, want) {
			return fmt.Errorf("%q is gone:\n%s", want, out)
		}
	}
	return nil
}

func TestBuild_KeepsTheSchemaOfOneOverlayOutOfTheNext(t *testing.T) {
	for i := range 3 {
		if _, err := build(hostile); err != nil {
			t.Fatal(err)
		}
		out, err := build(innocent)
		if err == nil {
			err = whole(out)
		}
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
}

func TestBuild_KeepsOverlaysApartThatAreBuiltAtOnce(t *testing.T) {
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			if i%2 == 0 {
				if _, err := build(hostile); err != nil {
					t.Error(err)
				}
				return
			}
			out, err := build(innocent)
			if err == nil {
				err = whole(out)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestBuild_RefusesAPatchThatCopiesAnObjectIntoItself(t *testing.T) {
	var patch strings.Builder
	for i := range 40 {
		fmt.Fprintf(&patch, "- {op: copy, from: /data, path: /data/x%d}\n", i)
	}
	_, err := build(map[string]string{
		"kustomization.yaml": "resources: [x.yaml]\npatches: [{path: p.yaml, target: {kind: ConfigMap}}]\n",
		"x.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: " + strings.Repeat("b", 1000) + "}\n",
		"p.yaml":             patch.String(),
	})
	if err == nil || !strings.Contains(err.Error(), "copy") {
		t.Errorf("error: %v", err)
	}
}

// falling is a file system with a fault that panics.
type falling struct{ filesys.FileSystem }

func (falling) ReadFile(string) ([]byte, error) { panic("fault") }

func TestBuild_SurvivesAPanicAndCanBuildAfterIt(t *testing.T) {
	fsys := filesys.MakeFsInMemory()
	if err := fsys.WriteFile("/o/kustomization.yaml", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := kustomize.Build(falling{fsys}, "/o", nil); err == nil || !strings.Contains(err.Error(), "fault") {
		t.Errorf("error: %v", err)
	}
	if out, err := build(innocent); err != nil || whole(out) != nil {
		t.Errorf("the next build: %v %v", err, whole(out))
	}
}

func TestCheckAliases(t *testing.T) {
	half := strings.Repeat("x", limits.ExpandedBytes/2-100)
	for name, c := range map[string]struct {
		text    string
		expands bool
	}{
		"nothing":                   {"", false},
		"text that is no YAML":      {"a: [b", false},
		"an alias or two":           {"a: &a [b, c]\nd: *a\ne: *a\n", false},
		"just within the bound":     {"a: &a " + half + "\nb: *a\n", false},
		"just over it":              {"a: &a " + half + "\nb: [*a, *a]\n", true},
		"in the second document":    {"a: b\n---\na: &a " + half + "\nb: [*a, *a]\n", true},
		"a merge key counts":        {"a: &a {x: " + half + "}\nb: {<<: *a}\nc: {<<: *a}\n", true},
		"a mapping that has itself": {"a: &a\n  b: *a\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := kustomize.CheckAliases([]byte(c.text)); errors.Is(err, kustomize.ErrExpands) != c.expands {
				t.Errorf("error: %v", err)
			}
		})
	}
}

// Kustomize would write to the standard error of whatever runs it, as often as it builds.
func TestBuild_HearsWhatKustomizeWarnsOf(t *testing.T) {
	fsys := filesys.MakeFsInMemory()
	for name, content := range map[string]string{"kustomization.yaml": "bases: [base]\n", "base/kustomization.yaml": "resources: [x.yaml]\ncommonLabels: {a: b}\n", "base/x.yaml": innocent["x.yaml"]} {
		if err := fsys.WriteFile("/o/"+name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	stderr := os.Stderr
	var lines []string
	if _, err := kustomize.Build(fsys, "/o", func(line string) { lines = append(lines, line) }); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "'bases' is deprecated") || !strings.Contains(lines[1], "'commonLabels' is deprecated") {
		t.Errorf("heard: %q", lines)
	}
	if os.Stderr != stderr {
		t.Error("the standard error is not what it was")
	}
	if _, err := kustomize.Build(falling{fsys}, "/o", func(string) {}); err == nil || os.Stderr != stderr {
		t.Errorf("after a panic: %v", err)
	}
}

// Kustomize logs some of what it warns of, with the time, and the value of a var that is no text.
func TestBuild_HearsWhatKustomizeLogs(t *testing.T) {
	fsys := filesys.MakeFsInMemory()
	for name, content := range map[string]string{
		"kustomization.yaml": "resources: [s.yaml, p.yaml]\nvars:\n- {name: UNUSED, objref: {apiVersion: v1, kind: Secret, name: s}}\n- {name: DATA, objref: {apiVersion: v1, kind: Secret, name: s}, fieldref: {fieldpath: stringData}}\n",
		"s.yaml":             "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n",
		"p.yaml":             "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, args: [a $(DATA)]}]}\n",
	} {
		if err := fsys.WriteFile("/o/"+name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	var before strings.Builder
	to, flags := log.Writer(), log.Flags()
	log.SetOutput(&before)
	defer log.SetOutput(to)
	var lines []string
	if _, err := kustomize.Build(fsys, "/o", func(line string) { lines = append(lines, line) }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"well-defined vars that were never replaced: ", "MakePrimitiveReplacer: bad replacement type="} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("%q is not heard: %q", want, lines)
		}
	}
	if text := strings.Join(lines, "\n"); strings.Contains(text, "hunter2") {
		t.Errorf("a value is shown: %q", text)
	}
	if before.Len() > 0 || log.Writer() != &before || log.Flags() != flags {
		t.Errorf("the log is not what it was: %q", before.String())
	}
}

// Kustomize ends the process where it cannot merge into a ConfigMap, with the code of a denial.
func TestBuild_SurvivesWhatKustomizeTakesForTheEnd(t *testing.T) {
	fsys := filesys.MakeFsInMemory()
	for name, content := range map[string]string{
		"kustomization.yaml":   "resources: [b]\nconfigMapGenerator: [{name: a, behavior: merge, literals: [z=w]}]\n",
		"b/kustomization.yaml": "resources: [a.yaml]\n",
		"b/a.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {'': y}\n",
	} {
		if err := fsys.WriteFile("/o/"+name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	stderr, to := os.Stderr, log.Writer()
	if _, err := kustomize.Build(fsys, "/o", func(string) {}); err == nil || !strings.Contains(err.Error(), "wrong node kind") {
		t.Errorf("error: %v", err)
	}
	if os.Stderr != stderr || log.Writer() != to {
		t.Error("the standard error or the log is not what it was")
	}
	if out, err := build(innocent); err != nil || whole(out) != nil {
		t.Errorf("after it: %v, %v", err, out)
	}
}
