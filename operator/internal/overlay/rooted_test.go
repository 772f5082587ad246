package overlay_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

func TestRead_OpensNothingOutsideTheRootAndNothingSpecial(t *testing.T) {
	outside := write(t, map[string]string{"secret.yaml": config, "base/kustomization.yaml": "resources: [x.yaml]\n", "base/x.yaml": config})
	link := func(t *testing.T, dir, name, target string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		kustomization string
		prepare       func(t *testing.T, dir string)
		want          []string
	}{
		"a base above the root":                {"resources:\n- x.yaml\n- ../../base\n", nil, []string{"kustomization.yaml:3:", "leaves the root"}},
		"an absolute base":                     {"resources:\n- " + outside + "/base\n", nil, []string{"kustomization.yaml:2:", "absolute"}},
		"an absolute file in a generator":      {"configMapGenerator:\n- name: a\n  files:\n  - /etc/passwd\n", nil, []string{"kustomization.yaml:4:", "absolute"}},
		"a file above the root in a generator": {"configMapGenerator:\n- name: a\n  files:\n  - k=../../secret.yaml\n", nil, []string{"kustomization.yaml:4:", "leaves the root"}},
		"an env file beside the kustomization": {"secretGenerator:\n- name: a\n  envs:\n  - ../other.env\n", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, "other.env"), []byte("a=b"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"kustomization.yaml:4:", "below the kustomization"}},
		"a patch above":           {"resources: [x.yaml]\npatches:\n- path: ../../p.yaml\n", nil, []string{"kustomization.yaml:3:", "leaves the root"}},
		"a link to a file":        {"resources: [x.yaml, link.yaml]\n", func(t *testing.T, dir string) { link(t, dir, "o/link.yaml", outside+"/secret.yaml") }, []string{"kustomization.yaml:1:", "link"}},
		"a link to a folder":      {"resources: [x.yaml, link]\n", func(t *testing.T, dir string) { link(t, dir, "o/link", outside+"/base") }, []string{"kustomization.yaml:1:", "link"}},
		"a relative link upwards": {"components: [link]\n", func(t *testing.T, dir string) { link(t, dir, "o/link", "../../../../../../../../..") }, []string{"kustomization.yaml:1:", "link"}},
		"a FIFO": {"resources: [x.yaml, fifo.yaml]\n", func(t *testing.T, dir string) {
			t.Helper()
			if err := syscall.Mkfifo(filepath.Join(dir, "o/fifo.yaml"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"kustomization.yaml:1:", "fifo.yaml", "not a regular file"}},
		"a FIFO in a generator": {"configMapGenerator:\n- name: a\n  files: [fifo]\n", func(t *testing.T, dir string) {
			t.Helper()
			if err := syscall.Mkfifo(filepath.Join(dir, "o/fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"kustomization.yaml:3:", "not a regular file"}},
		"a huge file": {"resources:\n- x.yaml\n- huge.yaml\n", func(t *testing.T, dir string) {
			t.Helper()
			if err := errors.Join(os.WriteFile(filepath.Join(dir, "o/huge.yaml"), nil, 0o600), os.Truncate(filepath.Join(dir, "o/huge.yaml"), limits.SourceFileBytes+1)); err != nil {
				t.Fatal(err)
			}
		}, []string{"kustomization.yaml:3:", "huge.yaml", "limits.SourceFileBytes"}},
		"a file that is not there": {"resources:\n- x.yaml\n- y.yaml\n", nil, []string{"kustomization.yaml:3:", "no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"o/kustomization.yaml": c.kustomization, "o/x.yaml": workload})
			if c.prepare != nil {
				c.prepare(t, dir)
			}
			_, err := read(t, dir, "o")
			mustFail(t, err, c.want...)
		})
	}
	// From other/deep, which the link leads to, Kustomize goes to other/x, and not to o/x.
	t.Run("up from where a link leads", func(t *testing.T) {
		dir := write(t, map[string]string{
			"o/kustomization.yaml": "resources: [link]\n", "other/deep/kustomization.yaml": "resources:\n- ../x\n",
			"o/x/kustomization.yaml": "resources: [x.yaml]\n", "o/x/x.yaml": config, "other/x/kustomization.yaml": "resources: [x.yaml]\n", "other/x/x.yaml": config,
		})
		link(t, dir, "o/link", "../other/deep")
		_, err := overlay.Read(dir, filepath.Join(dir, "o"), nil)
		mustFail(t, err, "o/link/kustomization.yaml:2:", "a link")
	})
	t.Run("a plain folder with a FIFO and links", func(t *testing.T) {
		dir := write(t, map[string]string{"x.yaml": workload})
		if err := syscall.Mkfifo(filepath.Join(dir, "fifo.yaml"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := read(t, dir, ".")
		mustFail(t, err, "fifo.yaml", "not a regular file")
		if err := os.Remove(filepath.Join(dir, "fifo.yaml")); err != nil {
			t.Fatal(err)
		}
		link(t, dir, "link.yaml", outside+"/secret.yaml")
		_, err = read(t, dir, ".")
		mustFail(t, err, "link.yaml", "escapes")
	})
	t.Run("a link in a repository, named on the command line", func(t *testing.T) {
		dir := write(t, map[string]string{".git/HEAD": "", "x.yaml": workload})
		link(t, dir, "prod", outside)
		_, err := overlay.Read("", filepath.Join(dir, "prod"), nil)
		mustFail(t, err, "not inside the root")
	})
	t.Run("a path outside a given root", func(t *testing.T) {
		_, err := overlay.Read(write(t, nil), outside, nil)
		mustFail(t, err, "not inside the root")
	})
}

func TestRead_WithoutGitTheFolderIsTheRoot(t *testing.T) {
	dir := write(t, map[string]string{
		"base/kustomization.yaml": "resources: [x.yaml]\n", "base/x.yaml": workload,
		"over/kustomization.yaml": "resources: [../base]\n",
	})
	_, err := overlay.Read("", filepath.Join(dir, "over"), nil)
	mustFail(t, err, "kustomization.yaml:1:", "--root")
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if objects, err := overlay.Read("", filepath.Join(dir, "over"), nil); err != nil || len(objects) != 1 {
		t.Fatalf("with .git above: %d objects, %v", len(objects), err)
	}
}
