package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Another program judges again what the first has kept.
func TestCheck_AnotherProgramJudgesAgain(t *testing.T) {
	real := program
	t.Cleanup(func() { program = real })
	dir, cache := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		"in/web.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {image: registry.example.com/shop/web:1}\n",
		"gate.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec:\n  environment: prod\n  match: {namespaceSelector: {}}\n  unmatchedImages: Allow\n" +
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	judges := func(id string) bool {
		program = func() (string, error) { return id, nil }
		var out, said bytes.Buffer
		code := Main(t.Context(), []string{"check", filepath.Join(dir, "in"), "--gate", filepath.Join(dir, "gate.yaml"), "--cache-dir", cache}, strings.NewReader(""), &out, &said)
		if code != ExitPass {
			t.Fatalf("code %d: %s%s", code, out.String(), said.String())
		}
		if strings.Contains(said.String(), "no result is kept") {
			t.Fatal(said.String())
		}
		return !strings.Contains(said.String(), "nothing has changed")
	}
	for i, c := range []struct {
		id     string
		judges bool
	}{{"one", true}, {"one", false}, {"another", true}, {"one", false}} {
		if judges(c.id) != c.judges {
			t.Errorf("run %d, of program %s: judged %v", i, c.id, !c.judges)
		}
	}
}

func TestProgram_HasTheLinkersID(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	id := buildID(path)
	if len(strings.TrimRight(id, "\x00")) < 20 {
		t.Errorf("the build ID is %q", id)
	}
	if none := buildID(filepath.Join(t.TempDir(), "none")); none != "" {
		t.Errorf("of no file: %q", none)
	}
	if known, err := program(); err != nil || known != "build "+id {
		t.Errorf("%q, %v", known, err)
	}
}
