package cli_test

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/redact"
)

func TestArguments_AreNamedWhereTheyAreMissing(t *testing.T) {
	d := newDesk(t)
	for says, args := range map[string][]string{
		"sluice: PATH is missing: call it as sluice diff PATH [flags], or see sluice diff --help": {"diff"},
		"sluice: PATH... is missing: call it as sluice check PATH... [flags]":                     {"check"},
		"sluice: OLD NEW is missing": {"crd", "check"},
		`sluice: "b" is one word too many: sluice history takes IMAGE, see sluice history --help`: {"history", "a", "b"},
		`sluice: "c" is one word too many: sluice crd check takes OLD and NEW`:                    {"crd", "check", "a", "b", "c"},
		`sluice: "all" is one word too many: sluice drift takes flags only`:                       {"drift", "all"},
		`sluice: "now" is one word too many: sluice lab up takes flags only`:                      {"lab", "up", "now"},
	} {
		d.run("", args...).must(t, 2, says)
	}
}

// TestCommands_AreWrongInputWhereThereAreNone: what shows its help and exits with 0 is a
// check that always passes.
func TestCommands_AreWrongInputWhereThereAreNone(t *testing.T) {
	d := newDesk(t)
	for says, args := range map[string][]string{
		`sluice: unknown command "chek" for "sluice": did you mean check? See sluice --help`:                     {"chek"},
		`sluice: unknown command "overlay" for "sluice lint": did you mean overlays? See sluice lint --help`:     {"lint", "overlay"},
		`sluice: unknown command "k8s/prod" for "sluice crd": see sluice crd --help`:                             {"crd", "k8s/prod", "b"},
		`sluice: unknown command "nushell" for "sluice completion": see sluice completion --help`:                {"completion", "nushell"},
		"sluice: a command is missing: call sluice policy import or sluice policy push, or see sluice policy --": {"policy"},
		"sluice: a command is missing: call sluice docs man, or see sluice docs --help":                          {"docs"},
		`sluice: unknown command "chek" for "sluice": did you mean check? See sluice --help` + "\n":              {"help", "chek"},
		`sluice: unknown command "overlay" for "sluice lint": did you mean overlays?`:                            {"help", "lint", "overlay"},
		"sluice: unknown flag: --fail-on": {"lint", "--fail-on", "error"},
		`sluice: a command cannot stand behind --: put "check" before it, or see sluice --help`:       {"--", "check", "."},
		`sluice: a command cannot stand behind --: put "push" before it, or see sluice policy --help`: {"policy", "--", "push"},
		"sluice: a command is missing: call sluice crd check, or see sluice crd --help":               {"crd", "--"},
	} {
		got := d.run("", args...)
		got.must(t, 2, says)
		if got.out != "" {
			t.Errorf("%q: standard output has %q", args, got.out)
		}
	}
	for _, args := range [][]string{{}, {"--help"}, {"lint", "--help"}, {"lint", "-h"}, {"help", "lint"}, {"help"}, {"help", "lint", "overlays"}, {"help", "help"}, {"lint", "-h", "--", "overlays"}, {"__complete", "lint", ""}, {"completion", "bash"}} {
		d.run("", args...).must(t, 0)
	}
	d.run("", "--version").must(t, 0, "sluice version ")
}

// TestRender_GivesACISystemNoCommands wants what is printed to be the same objects.
func TestRender_GivesACISystemNoCommands(t *testing.T) {
	d := newDesk(t)
	const hostile = "a\n::set-output name=a::b\n##vso[task.setvariable variable=PATH]c\n"
	d.write(t, "web.yaml", namespace+head+d.image("signed")+"\n  config:\n    mountPath: /etc/web\n    files:\n      x: |\n        "+strings.ReplaceAll(strings.TrimSpace(hostile), "\n", "\n        ")+"\n")
	got := d.run("", "render", "@web.yaml")
	got.must(t, 0)
	for line := range strings.Lines(got.out) {
		if redact.Obeyed(line) {
			t.Errorf("%q may be obeyed", line)
		}
	}
	found := false
	for _, document := range strings.Split(got.out, "---\n") {
		var object struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		if object.Kind == "ConfigMap" {
			found = reflect.DeepEqual(object.Data, map[string]string{"x": hostile})
		}
	}
	if !found {
		t.Errorf("the file is not what was written:\n%s", got.out)
	}
}

func TestPolicyImport_PrintsModulesAsBlocks(t *testing.T) {
	code, config, _ := runPolicy(t, gatekeeperTemplate, "-")
	if code != 0 || !strings.Contains(config, "data:\n  houseteam.rego: |\n    ") || strings.Contains(config, `\n`) {
		t.Errorf("exit code %d:\n%s", code, config)
	}
}
