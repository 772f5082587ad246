package clone_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/clone"
)

const ours = "module github.com/sluice-dev/sluice\n\ngo 1.26.0\n"

// write fills a new folder, and goes to one below it.
func write(t *testing.T, files map[string]string, where string) (root string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, where), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, where))
	return root
}

func TestRoot_GoesByTheModule(t *testing.T) {
	base := "kustomize/base/kustomization.yaml"
	for title, tc := range map[string]struct {
		files map[string]string
		where string
		want  string // below the test's folder; "none": there is none
	}{
		"at the root":                        {map[string]string{"go.mod": ours}, ".", "."},
		"in a subfolder":                     {map[string]string{"go.mod": ours, base: ""}, "kustomize/base/crds", "."},
		"a clone in a folder of others":      {map[string]string{"go.mod": "module example.com/all\n", "sluice/go.mod": ours}, "sluice/docs", "sluice"},
		"another module of the clone":        {map[string]string{"go.mod": ours, "hack/tools/lint/go.mod": "module github.com/sluice-dev/sluice/hack/tools/lint\n"}, "hack/tools/lint", "."},
		"behind a comment":                   {map[string]string{"go.mod": "// Sluice\n\n" + ours}, ".", "."},
		"nothing":                            {nil, "a/b", "none"},
		"a foreign repository with our base": {map[string]string{base: "", ".git/HEAD": ""}, "kustomize/base", "none"},
		"a foreign module with our base":     {map[string]string{base: "", "go.mod": "module example.com/shop\n"}, "kustomize", "none"},
		"who needs us":                       {map[string]string{"go.mod": "module example.com/shop\n\nrequire github.com/sluice-dev/sluice v1.0.0\n"}, ".", "none"},
		"a module whose name begins so":      {map[string]string{"go.mod": "module github.com/sluice-dev/sluice-fork\n"}, ".", "none"},
		"a go.mod without a module":          {map[string]string{"go.mod": "go 1.26.0\n"}, ".", "none"},
		"a folder called go.mod":             {map[string]string{"go.mod/go.mod": ours}, ".", "none"},
	} {
		t.Run(title, func(t *testing.T) {
			root := write(t, tc.files, tc.where)
			got, err := clone.Root()
			if tc.want == "none" {
				if err == nil || !strings.Contains(err.Error(), "run this in a clone of the repository") {
					t.Errorf("%q, %v", got, err)
				}
				return
			}
			if err != nil || got != filepath.Join(root, tc.want) {
				t.Errorf("%q, %v; want %q", got, err, filepath.Join(root, tc.want))
			}
		})
	}
}

// The module of this repository is the one that is looked for.
func TestRoot_FindsThisRepository(t *testing.T) {
	want, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := clone.Root(); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
