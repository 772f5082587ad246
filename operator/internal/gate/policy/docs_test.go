package policy

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/policies"
)

func TestDocs_AreThoseThatAreCommitted(t *testing.T) {
	want, err := Docs()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/policies.md is stale: run go run ./operator/internal/gate/policy/policydocs > docs/policies.md")
	}
}

// TestDocs_EveryRowIsOfItsTable: a line break in a cell ends the table in what GitHub shows.
func TestDocs_EveryRowIsOfItsTable(t *testing.T) {
	text, err := Docs()
	if err != nil {
		t.Fatal(err)
	}
	columns := 0
	for number, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			if columns = 0; strings.Contains(line, " | ") {
				t.Errorf("line %d is the rest of a row: %s", number+1, line)
			}
			continue
		}
		cells := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") - 1
		if columns == 0 {
			columns = cells
		}
		if cells != columns {
			t.Errorf("line %d has %d cells and not %d: %s", number+1, cells, columns, line)
		}
	}
}

func TestDocs_RefuseARuleWithoutMetadata(t *testing.T) {
	for text, says := range map[string]string{
		"package sluice.x.y\n": "x/y.rego:1: METADATA is missing",
		"# METADATA\n# title: T\n# description: D\n# custom:\n#   severity: low\npackage sluice.x.y\n":                "custom.remedy",
		"# METADATA\n# title: T\n# description: D\n# custom:\n#   severity: low\n#   remedy: R\npackage sluice.x.y\n": "related_resources",
	} {
		if _, err := docsRow("x", "x/y.rego", text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

func TestLibrary_HasASeverityOfOursAndATestForEveryRule(t *testing.T) {
	for _, group := range BuiltinGroups() {
		source, err := compileUnit(unit{builtin(t, group)})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range source.rules {
			switch r.notes.severity {
			case gate.SeverityCritical, gate.SeverityHigh, gate.SeverityMedium, gate.SeverityLow:
			default:
				t.Errorf("%s has severity %q", r.policy, r.notes.severity)
			}
			words := strings.Split(r.ref, ".")
			test := words[2] + "/" + words[3] + "_test.rego"
			if _, err := fs.Stat(policies.Files, test); err != nil {
				t.Errorf("%s: %v", r.policy, err)
			}
		}
	}
}
