package cli_test

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
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
		raw, err := os.ReadFile(filepath.Join(d.dir, "fleet", ".github", "workflows", name+".yml"))
		must(t, err)
		var w struct {
			Jobs map[string]struct {
				Steps []struct {
					Name, Run string
					Env       map[string]string
				}
			}
		}
		must(t, yaml.Unmarshal(raw, &w))
		temp := t.TempDir()
		for _, step := range w.Jobs[name].Steps {
			if step.Name != "Install sluice" {
				continue
			}
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
	raw, err := os.ReadFile(filepath.Join(d.dir, "fleet", ".github", "workflows", "check.yml"))
	must(t, err)
	var w struct {
		Jobs map[string]struct{ Steps []struct{ Name, Run string } }
	}
	must(t, yaml.Unmarshal(raw, &w))
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "sluice"), []byte("#!/bin/sh\necho \"$@\"\nexit 1\n"), 0o755))
	for _, step := range w.Jobs["check"].Steps {
		if step.Name != "Ask the Gates" {
			continue
		}
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
		return
	}
	t.Error("there is no such step")
}
