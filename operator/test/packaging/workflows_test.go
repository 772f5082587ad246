package packaging

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what the rules below look at.
type workflow struct {
	Permissions *map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions    *map[string]string `json:"permissions"`
		TimeoutMinutes int                `json:"timeout-minutes"`
		Steps          []step             `json:"steps"`
	} `json:"jobs"`
}

type step struct {
	Name string `json:"name"`
	Uses string `json:"uses"`
	Run  string `json:"run"`
}

var (
	pinned  = regexp.MustCompile(`^\s*(- )?uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	targets = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):.*## `)
	called  = regexp.MustCompile(`\bmake((?: [a-z][a-z0-9/-]*)+)`)
)

// TestWorkflows_AreBound holds every workflow to what keeps a pull request from taking it
// over: no rights but those that a job names, actions by commit, and no expression within a
// script. What a script runs of make is there.
func TestWorkflows_AreBound(t *testing.T) {
	known := map[string]bool{}
	for _, m := range targets.FindAllStringSubmatch(string(read(t, "Makefile")), -1) {
		known[m[1]] = true
	}
	files, err := filepath.Glob(filepath.Join(root(t), ".github", "workflows", "*.yml"))
	if err != nil || len(files) != 4 {
		t.Fatalf("workflows: %v, %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		for _, line := range strings.Split(string(raw), "\n") {
			if strings.Contains(line, "uses:") && !pinned.MatchString(line) {
				t.Errorf("%s: not pinned by commit, with the version beside it: %s", name, line)
			}
		}
		var w workflow
		if err := yaml.Unmarshal(raw, &w); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if w.Permissions == nil || len(*w.Permissions) != 0 {
			t.Errorf("%s: permissions at the top are not {}", name)
		}
		for id, job := range w.Jobs {
			if job.Permissions == nil || job.TimeoutMinutes == 0 {
				t.Errorf("%s: job %s names no permissions, or no timeout", name, id)
			}
			before := ""
			for _, step := range job.Steps {
				// A runner has no identity of its own, and Git makes no commit without one.
				if strings.Contains(step.Run, "make promote") && (!strings.Contains(before, "git config user.name") || !strings.Contains(before, "git config user.email")) {
					t.Errorf("%s: job %s commits without a name and an address", name, id)
				}
				before += step.Run
				if strings.Contains(step.Run, "${{") {
					t.Errorf("%s: an expression in a script: %s", name, step.Run)
				}
				for _, m := range called.FindAllStringSubmatch(step.Run, -1) {
					for _, target := range strings.Fields(m[1]) {
						if !known[target] && !strings.HasPrefix(target, "bin/") {
							t.Errorf("%s: make %s, which there is not", name, target)
						}
					}
				}
			}
		}
	}
	if _, stderr, err := run(t, nil, "actionlint"); err != nil {
		t.Errorf("actionlint: %v %s", err, stderr)
	}
}

func TestMake_HelpShowsEveryTarget(t *testing.T) {
	help := must(t, nil, "make", "help")
	for _, m := range targets.FindAllStringSubmatch(string(read(t, "Makefile")), -1) {
		if !strings.Contains(help, "\n  "+m[1]+" ") {
			t.Errorf("make help does not show %s", m[1])
		}
	}
}
