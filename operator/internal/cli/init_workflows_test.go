package cli_test

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// moduleProxy is a folder that serves one version of this module, as a proxy does. Its
// command only says its name, and its go.mod replaces a module, as ours does.
func moduleProxy(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	at := filepath.Join(dir, "github.com", "sluice-dev", "sluice", "@v")
	must(t, os.MkdirAll(at, 0o755))
	gomod := "module github.com/sluice-dev/sluice\n\ngo 1.26.0\n\nreplace example.com/a => example.com/b v1.0.0\n"
	must(t, os.WriteFile(filepath.Join(at, version+".mod"), []byte(gomod), 0o600))
	must(t, os.WriteFile(filepath.Join(at, version+".info"), []byte(`{"Version":"`+version+`"}`), 0o600))
	archive, err := os.Create(filepath.Join(at, version+".zip"))
	must(t, err)
	w := zip.NewWriter(archive)
	for name, content := range map[string]string{
		"go.mod": gomod, "operator/cmd/sluice/main.go": "package main\n\nfunc main() { println(\"sluice\") }\n",
	} {
		f, err := w.Create("github.com/sluice-dev/sluice@" + version + "/" + name)
		must(t, err)
		_, err = f.Write([]byte(content))
		must(t, err)
	}
	must(t, w.Close())
	must(t, archive.Close())
	return dir
}

// The step is run as a runner does, against a proxy on disk.
func TestInit_ItsWorkflowsInstallTheCommand(t *testing.T) {
	const version = "v0.9.0"
	d := newDesk(t)
	d.run("", "init", "@fleet", "--name=fleet-a", "--registry="+d.registry.Host()+"/shop", "--image="+d.image("signed"), "--key", "@key.pub",
		"--no-argocd", "--sluice-version="+version).must(t, 0)
	proxy, modules := moduleProxy(t, version), t.TempDir()
	for _, name := range []string{"check", "promote"} {
		step, err := testkit.ReadWorkflowStep(filepath.Join(d.dir, "fleet", ".github", "workflows", name+".yml"), name, "Install sluice")
		must(t, err)
		temp := t.TempDir()
		c := exec.CommandContext(t.Context(), "bash", "-e", "-c", step.Run)
		c.Dir = filepath.Join(d.dir, "fleet")
		c.Env = append(os.Environ(), "RUNNER_TEMP="+temp, "GITHUB_PATH="+filepath.Join(temp, "path"),
			"GOPROXY=file://"+proxy, "GONOSUMDB=*", "GOMODCACHE="+modules, "GOFLAGS=-modcacherw -buildvcs=false")
		for key, value := range step.Env {
			c.Env = append(c.Env, key+"="+value)
		}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		if out, err := exec.CommandContext(t.Context(), filepath.Join(temp, "bin", "sluice")).CombinedOutput(); string(out) != "sluice\n" {
			t.Errorf("%s installs no command: %v %s", name, err, out)
		}
	}
}

// A fleet that is new is denied in ci: what prod says of a pull request is to be known too,
// beside its lines.
func TestInit_ItsCheckAsksEveryGateAndAnnotates(t *testing.T) {
	d := newDesk(t)
	d.run("", "init", "@fleet", "--name=fleet-a", "--registry="+d.registry.Host()+"/shop", "--image="+d.image("signed"), "--key", "@key.pub", "--no-argocd").must(t, 0)
	step, err := testkit.ReadWorkflowStep(filepath.Join(d.dir, "fleet", ".github", "workflows", "check.yml"), "check", "Ask the Gates")
	must(t, err)
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "sluice"), []byte("#!/bin/sh\necho \"$@\"\nexit 1\n"), 0o755))
	c := exec.CommandContext(t.Context(), "bash", "-e", "-c", step.Run)
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := c.Output()
	want := ""
	for _, e := range []string{"dev", "ci", "e2e", "prod"} {
		want += "check overlays/" + e + " --format github\n"
	}
	if err == nil || string(out) != want {
		t.Errorf("%v, and it ran %q, want %q", err, out, want)
	}
}

// promotes runs the step of a fleet's workflow that promotes, as a runner does, with this
// command. It returns what is said, and the summary.
func (d *desk) promotes(t *testing.T, to string) (said, summary string, err error) {
	t.Helper()
	step, err := testkit.ReadWorkflowStep(filepath.Join(d.dir, ".github", "workflows", "promote.yml"), "promote", "Take the images over")
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	temp := t.TempDir()
	must(t, os.Symlink(self, filepath.Join(temp, "sluice")))
	c := exec.CommandContext(t.Context(), "bash", "-e", "-c", step.Run)
	c.Dir = d.dir
	c.Env = append(os.Environ(), asCommand+"=1", "PATH="+temp+":"+os.Getenv("PATH"), "TO="+to, "GH_TOKEN=", "GITHUB_API_URL=https://api.github.com",
		"RUNNER_TEMP="+temp, "GITHUB_STEP_SUMMARY="+filepath.Join(temp, "summary"))
	out, ended := c.CombinedOutput()
	raw, err := os.ReadFile(filepath.Join(temp, "summary"))
	must(t, err)
	return string(out), string(raw), ended
}

// A promotion that waits for evidence is no failure; one that a Gate denies for more is one.
func TestInit_ItsPromotionFailsForWhatHasToBeActedOn(t *testing.T) {
	d := newDesk(t)
	d.keyring(t)
	d.initWith("--attestors", "@keys").must(t, 0)
	d.dir = filepath.Join(d.dir, "fleet")
	d.git(t, "init", "-q", "-b", "main")
	d.git(t, "config", "user.name", "a")
	d.git(t, "config", "user.email", "a@example.com")
	file := filepath.Join("overlays", "dev", "images", "kustomization.yaml")
	was, err := os.ReadFile(filepath.Join(d.dir, file))
	must(t, err)
	pinned := regexp.MustCompile("sha256:[0-9a-f]{64}")
	for _, c := range []struct {
		name, to string
		sign     bool
		fails    bool
		says     []string
	}{
		{"signed-new", "ci", true, false, []string{"## dev to ci\n", "\n    not yet: Workload/", "has no evidence of environment dev", "nothing was changed"}},
		{"signed-new", "prod", true, false, []string{"## e2e to prod\n", "nothing to do"}},
		{"unsigned-new", "ci", false, true, []string{"## dev to ci\n", "image has no signature", "\n    sluice: the gate of ci denies it"}},
	} {
		digest, err := testkit.PushImage(d.registry.Host()+"/shop/signed:new", c.name)
		must(t, err)
		if c.sign {
			must(t, d.key.SignBundle(d.registry.Host()+"/shop/signed", digest))
		}
		d.write(t, file, pinned.ReplaceAllString(string(was), digest))
		d.git(t, "add", "-A")
		d.git(t, "commit", "-q", "--allow-empty", "-m", c.name)
		said, summary, err := d.promotes(t, c.to)
		if (err != nil) != c.fails {
			t.Errorf("%s to %s: %v\n%s", c.name, c.to, err, said)
		}
		for _, text := range c.says {
			if !strings.Contains(summary, text) {
				t.Errorf("%s to %s: %q is not in the summary:\n%s", c.name, c.to, text, summary)
			}
		}
		if err := exec.CommandContext(t.Context(), "git", "-C", d.dir, "rev-parse", "-q", "--verify", "promote/"+c.to).Run(); err == nil {
			t.Errorf("%s: branch promote/%s is there", c.name, c.to)
		}
	}
}
