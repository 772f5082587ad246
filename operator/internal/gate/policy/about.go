package policy

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// About is what the METADATA of a rule of the library says for people.
type About struct{ Title, Description, Remedy string }

// Describe says what a rule of the library is about, by the name that its findings have,
// group/rule; false for what is none of them.
func Describe(name string) (About, bool) {
	group, rule, _ := strings.Cut(name, "/")
	set, ok := Builtin(group)
	if !ok {
		return About{}, false
	}
	for _, folder := range []string{group, included[group]} {
		file := folder + "/" + strings.ReplaceAll(rule, "-", "_") + ".rego"
		text, ok := set.Modules[file]
		if !ok {
			continue
		}
		module, err := ast.ParseModuleWithOpts(file, text, ast.ParserOptions{ProcessAnnotation: true, RegoVersion: ast.RegoV1})
		if err != nil || len(module.Annotations) == 0 {
			return About{}, false
		}
		notes := module.Annotations[0]
		remedy, _ := notes.Custom["remedy"].(string)
		return About{notes.Title, notes.Description, remedy}, true
	}
	return About{}, false
}
