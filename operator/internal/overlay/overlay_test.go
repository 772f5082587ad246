package overlay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

const (
	workload = "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {image: registry.example.com/shop/web:1}\n"
	config   = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
)

// write makes a folder with these files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, dir, below string) ([]overlay.Object, error) {
	t.Helper()
	return overlay.Read(dir, filepath.Join(dir, below), strings.NewReader(""))
}

// mustFail expects an error that says every one of the texts.
func mustFail(t *testing.T, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q:\n%v", want, err)
		}
	}
}

func TestRead_NamesTheFileOfEveryObject(t *testing.T) {
	dir := write(t, map[string]string{
		"base/kustomization.yaml": "resources: [web.yaml]\n", "base/web.yaml": workload,
		"component/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [extra.yaml]\n",
		"component/extra.yaml":         strings.Replace(workload, "web", "extra", 1),
		"over/kustomization.yaml": "resources: [../base, own.yaml]\ncomponents: [../component]\npatches: [{path: patch.yaml}]\n" +
			"configMapGenerator: [{name: generated, literals: [a=b]}]\n",
		"over/own.yaml":   strings.Replace(workload, "web", "own", 1),
		"over/patch.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 3}\n",
	})
	objects, err := read(t, dir, "over")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range objects {
		name, _, _ := strings.Cut(o.GetName(), "-")
		relative, err := filepath.Rel(dir, o.File)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = relative
		if len(o.GetAnnotations()) != 0 {
			t.Errorf("%s keeps annotations %v", name, o.GetAnnotations())
		}
		if replicas := o.Object["spec"]; name == "web" && !strings.Contains(fmt.Sprint(replicas), "replicas:3") {
			t.Errorf("the patch did not apply: %v", replicas)
		}
	}
	want := map[string]string{"web": "base/web.yaml", "extra": "component/extra.yaml", "own": "over/own.yaml", "generated": "over/kustomization.yaml"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("files are %v and should be %v", got, want)
	}
}

func TestRead_PlainFolders(t *testing.T) {
	t.Run("files by name, folders within and no hidden ones at the top", func(t *testing.T) {
		dir := write(t, map[string]string{"b.yml": workload, "a/x.json": `{"apiVersion": "v1", "kind": "ConfigMap"}`, ".hidden/x.yaml": "a: [", "notes.txt": "a: ["})
		objects, err := read(t, dir, ".")
		if err != nil || len(objects) != 2 || filepath.Base(objects[1].File) != "b.yml" {
			t.Fatalf("%v %v", objects, err)
		}
	})
	t.Run("a hidden folder within, which kubectl and Argo CD would apply too", func(t *testing.T) {
		dir := write(t, map[string]string{"a/b.yaml": workload, "a/.c/d.yaml": workload, "a/.git/e.yaml": "a: ["})
		for _, below := range []string{".", "a"} {
			objects, err := overlay.Read(dir, filepath.Join(dir, below), nil)
			if err != nil || len(objects) != 2 || filepath.Base(objects[0].File) != "d.yaml" {
				t.Fatalf("%v %v", objects, err)
			}
		}
	})
	t.Run("a kustomization within is no plain manifest", func(t *testing.T) {
		_, err := read(t, write(t, map[string]string{"a.yaml": workload, "o/kustomization.yaml": "resources: []\n"}), ".")
		mustFail(t, err, "o is a kustomization")
	})
	t.Run("a kustomization named as a file", func(t *testing.T) {
		_, err := read(t, write(t, map[string]string{"o/kustomization.yaml": "resources: []\n"}), "o/kustomization.yaml")
		mustFail(t, err, "name its folder")
	})
	t.Run("a path that is not there", func(t *testing.T) {
		_, err := overlay.Read("", filepath.Join(t.TempDir(), "gone"), nil)
		mustFail(t, err, "gone", "no such file")
	})
}

func TestSet_WithReadsOtherBytesAndElseWhatItReadBefore(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"kustomization.yaml": "resources: [a.yaml, b.yaml]\n",
		"a.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n",
		"b.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {x: '1'}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := overlay.Load(dir, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	// What becomes of the files meanwhile does not count.
	if err := os.WriteFile(filepath.Join(dir, "b.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {x: '3'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := set.With(map[string][]byte{"a.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '2'}\n")})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"2", "1"} {
		if got := after.Objects[i].Object["data"].(map[string]any)["x"]; got != want {
			t.Errorf("%s has %v", after.Objects[i].GetName(), got)
		}
		if got := set.Objects[i].Object["data"].(map[string]any)["x"]; got != "1" {
			t.Errorf("%s had %v", set.Objects[i].GetName(), got)
		}
	}
	for name, c := range map[string]struct {
		files map[string][]byte
		says  string
	}{
		"a file that was not read": {map[string][]byte{"c.yaml": nil}, "was not read before"},
		"a remote base":            {map[string][]byte{"kustomization.yaml": []byte("resources: ['https://example.com/x']\n")}, "is refused"},
		"aliases that are a bomb":  {map[string][]byte{"a.yaml": []byte("a: &a " + strings.Repeat("x", 9<<20) + "\nb: [*a, *a]\n")}, "limits.ExpandedBytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := set.With(c.files); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error: %v", err)
			}
		})
	}
	input, err := overlay.Load("", overlay.Stdin, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := input.With(nil); err == nil {
		t.Error("standard input was read again")
	}
}
