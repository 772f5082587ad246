package overlay_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

func TestUnchanged(t *testing.T) {
	files := map[string]string{
		"base/kustomization.yaml": "resources: [a.yaml]\n", "base/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"overlay/kustomization.yaml": "resources: [../base]\npatches: [{path: p.yaml}]\n", "overlay/p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {b: c}\n",
		"up/kustomization.yaml": "resources: [../mid]\n", "mid/kustomization.yaml": "resources: [../base]\n",
		"plain/sub/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "plain/note.txt": "x",
	}
	for name, c := range map[string]struct {
		path   string
		change func(dir string) error
		same   bool
	}{
		"nothing":                         {"overlay", func(string) error { return nil }, true},
		"a file of a base":                {"overlay", func(d string) error { return os.WriteFile(d+"/base/a.yaml", []byte("x"), 0o600) }, false},
		"a file that is not read":         {"overlay", func(d string) error { return os.WriteFile(d+"/base/b.yaml", []byte("x"), 0o600) }, true},
		"a patch that is gone":            {"overlay", func(d string) error { return os.Remove(d + "/overlay/p.yaml") }, false},
		"a kustomization of another name": {"overlay", func(d string) error { return os.WriteFile(d+"/base/Kustomization", nil, 0o600) }, false},
		"a folder in place of a file":     {"overlay", func(d string) error { return swap(d+"/base/a.yaml", os.Mkdir) }, false},
		"a link that leads outside": {"overlay", func(d string) error {
			return swap(d+"/base/a.yaml", func(p string, _ os.FileMode) error { return os.Symlink("/etc/hostname", p) })
		}, false},
		"a link in place of a folder that goes up": {"up", func(d string) error {
			if err := os.Rename(d+"/mid", d+"/moved"); err != nil {
				return err
			}
			return os.Symlink("moved", d+"/mid")
		}, false},
		"a file more in a plain folder":  {"plain", func(d string) error { return os.WriteFile(d+"/plain/sub/b.yaml", nil, 0o600) }, false},
		"another type in a plain folder": {"plain", func(d string) error { return swap(d+"/plain/note.txt", os.Mkdir) }, false},
		"a text in a plain folder":       {"plain", func(d string) error { return os.WriteFile(d+"/plain/note.txt", []byte("y"), 0o600) }, true},
		"a Git work tree around it":      {"plain", func(d string) error { return os.Mkdir(d+"/.git", 0o700) }, false},
		"a file in place of the folder": {"plain", func(d string) error {
			return swap(d+"/plain", func(p string, _ os.FileMode) error { return os.WriteFile(p, nil, 0o600) })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, files)
			root := ""
			if c.path != "plain" {
				root = dir
			}
			set, err := overlay.Load(root, filepath.Join(dir, c.path), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			if same := overlay.Unchanged(root, filepath.Join(dir, c.path), set.Seen); same != c.same {
				t.Errorf("unchanged: %v", same)
			}
		})
	}
}

// swap puts something else where a file or folder is.
func swap(path string, make func(string, os.FileMode) error) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return make(path, 0o700)
}

func TestLoad_SaysWhereItTakesValuesFromTheEnvironment(t *testing.T) {
	for kustomization, blind := range map[string]bool{
		"configMapGenerator: [{name: a, literals: [a=b]}]\n": false,
		"configMapGenerator: [{name: a, envs: [x.env]}]\n":   true,
		"secretGenerator: [{name: a, env: x.env}]\n":         true,
		"generators: [g.yaml]\n":                             true,
	} {
		dir := write(t, map[string]string{
			"kustomization.yaml": kustomization, "x.env": "A=b\n",
			"g.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: a}\nliterals: [a=b]\n",
		})
		set, err := overlay.Load("", dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (set.Seen.Blind != "") != blind {
			t.Errorf("%s: %q", kustomization, set.Seen.Blind)
		}
	}
}
