package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// docsPage is where people read about the library: every rule's METADATA names it with
// its group.
const docsPage = "https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#"

// Docs is docs/policies.md: every rule of the library, from its METADATA, and every
// parameter, from the schemas.
func Docs() (string, error) {
	var b strings.Builder
	b.WriteString("# Policy library\n\n" +
		"A Gate names a group in `spec.policies[].builtin` and gets all of its rules. Findings name a rule as\n" +
		"`group/rule`. Parameters of a group stand in `spec.parameters.<group>` of the Gate; a name or a value that is not\n" +
		"in its table is refused at admission and by `sluice check`, with its path and what to write. This page is generated\n" +
		"from the library in `policies/` by `go run ./operator/internal/gate/policy/policydocs > docs/policies.md`.\n")
	for _, group := range BuiltinGroups() {
		if err := docsGroup(&b, group); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func docsGroup(b *strings.Builder, group string) error {
	fmt.Fprintf(b, "\n## %s\n\n", group)
	if about := groupNotes[group]; about != "" {
		b.WriteString(about + "\n\n")
	}
	b.WriteString("| Rule | Severity | What it demands | What to do |\n| --- | --- | --- | --- |\n")
	set, _ := Builtin(group)
	for _, file := range sortedKeys(set.Modules) {
		if !strings.HasPrefix(file, group+"/") {
			continue
		}
		row, err := docsRow(group, file, set.Modules[file])
		if err != nil {
			return err
		}
		b.WriteString(row)
	}
	properties := parameterSchemas()[group].Properties
	if len(properties) == 0 {
		return nil
	}
	b.WriteString("\n| Parameter | Type | Default | What it does |\n| --- | --- | --- | --- |\n")
	for _, name := range sortedKeys(properties) {
		p := properties[name]
		byDefault, err := oneLine(p.Default)
		if err != nil {
			return fmt.Errorf("%s.%s: default: %w", group, name, err)
		}
		b.WriteString(tableRow("`"+name+"`", p.describe(), byDefault, p.Description))
	}
	return nil
}

// groupNotes are what a reader of a group has to know beyond its rules.
var groupNotes = map[string]string{
	"baseline": "The baseline level of the Pod Security Standards, as of Kubernetes 1.35.",
	"restricted": "The restricted level of the Pod Security Standards, as of Kubernetes 1.35. The group has every rule of\n" +
		"[baseline](#baseline) too, under names such as `restricted/privileged`; those that stand in both tables are the\n" +
		"stricter ones here. `hostUsers: false` relaxes what the standard relaxes for it: a cluster without user namespaces\n" +
		"drops that field, and runs such a pod as the root that it asks for.",
}

// oneLine is a value as code, without the line breaks of its file: they would end the row.
func oneLine(value json.RawMessage) (string, error) {
	if len(value) == 0 {
		return "", nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		return "", err
	}
	return "`" + b.String() + "`", nil
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
	link := docsPage + group
	if len(notes.RelatedResources) != 1 || notes.RelatedResources[0].Ref.String() != link {
		return "", fmt.Errorf("%s:1: METADATA has to have one entry of related_resources, %s", file, link)
	}
	return tableRow("`"+rule+"`", severity, notes.Title+". "+notes.Description, remedy), nil
}

func tableRow(cells ...string) string {
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(cell, "|", "\\|")
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}
