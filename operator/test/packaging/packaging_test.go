// Package packaging holds the ways to install the operator against each other: Kustomize,
// the Helm chart and the OLM bundle.
package packaging

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/clone"
)

func root(t *testing.T) string {
	t.Helper()
	r, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs a program in the root of the repository and returns what it says.
func run(t *testing.T, env []string, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	if filepath.Dir(name) == "." && name != "make" {
		name = filepath.Join(root(t), "bin", "tools", name)
	}
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = root(t)
	c.Env = append(os.Environ(), env...)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	err = c.Run()
	return out.String(), said.String(), err
}

func must(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	stdout, stderr, err := run(t, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// objects are the documents of a YAML stream, by kind, namespace and name.
func objects(t *testing.T, stream string) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, document := range strings.Split("\n"+stream, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		if len(u.Object) == 0 {
			continue
		}
		key := u.GetKind() + "/" + u.GetNamespace() + "/" + u.GetName()
		if _, twice := out[key]; twice {
			t.Errorf("%s is there twice", key)
		}
		out[key] = u.Object
	}
	return out
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{root(t)}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func writeJSON(t *testing.T, file string, content any) {
	t.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
