package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// steps are the steps of one job of a workflow.
func steps(t *testing.T, file, job string) []step {
	t.Helper()
	var w workflow
	if err := yaml.Unmarshal(read(t, ".github", "workflows", file), &w); err != nil {
		t.Fatal(err)
	}
	return w.Jobs[job].Steps
}

// TestRelease_TakesOnlyATagThatIsAVersion runs the step as a runner does. A tag may hold
// what a shell takes for a command, and make hands the version to one.
func TestRelease_TakesOnlyATagThatIsAVersion(t *testing.T) {
	all := steps(t, "release.yml", "release")
	at := slices.IndexFunc(all, func(s step) bool { return s.Name == "Version of the tag" })
	if at < 0 {
		t.Fatal("there is no such step")
	}
	for tag, want := range map[string]string{
		"v1.2.3":         "VERSION=1.2.3\nPRERELEASE=false\nREPOSITORY=ghcr.io/someone/sluice\n",
		"v0.10.0-rc.1":   "VERSION=0.10.0-rc.1\nPRERELEASE=true\nREPOSITORY=ghcr.io/someone/sluice\n",
		"v1.2.3;id":      "",
		"v1.2.3$(id)":    "",
		"v1.2.3\nA=b":    "",
		"v1.2.3.4":       "",
		"v1.2.3-":        "",
		"v1.2":           "",
		"v1.2.3+build.1": "", // no tag of an image may have a +
	} {
		env := filepath.Join(t.TempDir(), "env")
		c := exec.CommandContext(t.Context(), "bash", "-e", "-c", all[at].Run)
		c.Env = append(os.Environ(), "GITHUB_REF_NAME="+tag, "GITHUB_REPOSITORY=Someone/Sluice", "GITHUB_ENV="+env)
		out, err := c.CombinedOutput()
		written, _ := os.ReadFile(env)
		if string(written) != want || (err == nil) != (want != "") {
			t.Errorf("tag %q: %v, it writes %q and says %s", tag, err, written, out)
		}
	}
}

// TestRelease_LooksBeforeItPushes has what can be wrong with a tag come before what cannot
// be taken back.
func TestRelease_LooksBeforeItPushes(t *testing.T) {
	order := map[string]int{}
	for i, s := range steps(t, "release.yml", "release") {
		for _, target := range []string{"release-notes", "image-oci"} {
			if strings.Contains(s.Run, target) {
				order[target] = i
			}
		}
	}
	if order["release-notes"] == 0 || order["release-notes"] > order["image-oci"] {
		t.Errorf("steps: %v", order)
	}
}

// TestPromote_NamesWhoCommits and lets no step of the chain wait for another's reviewer.
func TestPromote_NamesWhoCommits(t *testing.T) {
	named := false
	for _, s := range steps(t, "promote.yml", "promote") {
		named = named || strings.Contains(s.Run, "git config user.name") && strings.Contains(s.Run, "git config user.email")
		if strings.Contains(s.Run, "make promote") && !named {
			t.Error("a runner's Git has no name to commit by")
		}
	}
	var w struct {
		Concurrency any
		Jobs        map[string]struct{ Concurrency struct{ Group string } }
	}
	if err := yaml.Unmarshal(read(t, ".github", "workflows", "promote.yml"), &w); err != nil {
		t.Fatal(err)
	}
	if group := w.Jobs["promote"].Concurrency.Group; w.Concurrency != nil || group != "promote-${{ matrix.to }}" {
		t.Errorf("one that waits for a reviewer holds up all: %v, %q", w.Concurrency, group)
	}
}

// TestPromote_FailsForWhatHasToBeActedOn has the summary say what make says, however it ends.
// What make says is up to the pipeline, which runs the same step.
func TestPromote_FailsForWhatHasToBeActedOn(t *testing.T) {
	for said, code := range map[string]int{"not yet: prod takes no promotions now": 0, "sluice: the gate of prod denies it": 2} {
		bin := t.TempDir()
		make := fmt.Sprintf("#!/bin/sh\necho \"$@: %s\" >&2\nexit %d\n", said, code)
		if err := os.WriteFile(filepath.Join(bin, "make"), []byte(make), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, s := range steps(t, "promote.yml", "promote") {
			if !strings.Contains(s.Run, "make promote") {
				continue
			}
			c := exec.CommandContext(t.Context(), "bash", "-e", "-c", s.Run)
			c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "FROM=e2e", "TO=prod", "RUNNER_TEMP="+bin, "GITHUB_STEP_SUMMARY="+filepath.Join(bin, "summary"))
			out, _ := c.CombinedOutput()
			summary, _ := os.ReadFile(filepath.Join(bin, "summary"))
			if want := "## e2e to prod\n\n    promote: " + said + "\n"; c.ProcessState.ExitCode() != code || string(summary) != want || string(out) != "promote: "+said+"\n" {
				t.Errorf("exit code %d, it says %q and the summary %q", c.ProcessState.ExitCode(), out, summary)
			}
		}
	}
}

// TestMake_SaysWhatAReleaseNeedsFirst: without the image's digest a bundle would be pushed
// that names the placeholder's.
func TestMake_SaysWhatAReleaseNeedsFirst(t *testing.T) {
	for target, first := range map[string]string{
		"chart-oci": "image-oci", "bundle-oci": "image-oci", "sign": "image-oci", "sign-binaries": "release-binaries",
	} {
		// Nothing answers at the registry, for a target that would go on.
		stdout, stderr, err := run(t, nil, "make", target, "REPOSITORY=127.0.0.1:1/sluice", "DIST="+t.TempDir())
		if err == nil || !strings.Contains(stderr, "run make "+first+" first") {
			t.Errorf("make %s: %v\n%s%s", target, err, stdout, stderr)
		}
	}
}
