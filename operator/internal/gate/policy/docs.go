package policy

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Docs is docs/policies.md: every rule of the library, from its METADATA.
func Docs() (string, error) {
	var b strings.Builder
	b.WriteString("# Policy library\n\n" +
		"A Gate names a group in `spec.policies[].builtin` and gets all of its rules. Findings name a rule as\n" +
		"`group/rule`. This page is generated from the library in `policies/` by\n" +
		"`go run ./operator/internal/gate/policy/policydocs > docs/policies.md`.\n\n" +
		"| Group | Rule | Severity | What it demands | What to do |\n| --- | --- | --- | --- | --- |\n")
	for _, group := range BuiltinGroups() {
		set, _ := Builtin(group)
		for _, file := range sortedKeys(set.Modules) {
			if !strings.HasPrefix(file, group+"/") {
				continue
			}
			row, err := docsRow(group, file, set.Modules[file])
			if err != nil {
				return "", err
			}
			b.WriteString(row)
		}
	}
	return b.String(), nil
}

func docsRow(group, file, text string) (string, error) {
	module, err := ast.ParseModuleWithOpts(file, text, ast.ParserOptions{ProcessAnnotation: true, RegoVersion: ast.RegoV1})
	if err != nil {
		return "", err
	}
	if len(module.Annotations) == 0 {
		return "", fmt.Errorf("%s:1: METADATA is missing above the package", file)
	}
	notes := module.Annotations[0]
	severity, _ := notes.Custom["severity"].(string)
	remedy, _ := notes.Custom["remedy"].(string)
	for name, value := range map[string]string{
		"title": notes.Title, "description": notes.Description, "custom.severity": severity, "custom.remedy": remedy,
	} {
		if value == "" {
			return "", fmt.Errorf("%s:1: METADATA has no %s", file, name)
		}
	}
	rule := strings.TrimPrefix(policyName(group, module.Package.Path), group+"/")
	cells := []string{"`" + group + "`", "`" + rule + "`", severity, notes.Title + ". " + notes.Description, remedy}
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(cell, "|", "\\|")
	}
	return "| " + strings.Join(cells, " | ") + " |\n", nil
}
