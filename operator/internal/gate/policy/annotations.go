package policy

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// annotations are what METADATA blocks say about a rule.
type annotations struct {
	title, severity, remedy string
}

// readAnnotations takes each field from the nearest scope that has it: the rule, then
// its document, its package, and the packages around.
func readAnnotations(set *ast.AnnotationSet, r *ast.Rule) (annotations, error) {
	var notes annotations
	for _, scope := range set.Chain(r) {
		if scope.Annotations == nil {
			continue
		}
		if notes.title == "" {
			notes.title = scope.Annotations.Title
		}
		for key, field := range map[string]*string{"severity": &notes.severity, "remedy": &notes.remedy} {
			value, ok := scope.Annotations.Custom[key]
			if !ok {
				continue
			}
			text, ok := value.(string)
			if !ok {
				return notes, fmt.Errorf("%s: custom.%s of METADATA is not text: put it in quotes", at(scope.Annotations.Location), key)
			}
			if *field == "" {
				*field = text
			}
		}
	}
	if notes.severity == "" {
		notes.severity = gate.SeverityHigh
	}
	return notes, nil
}

// merge joins the annotations of rules that fill the same set. A finding does not tell
// which of them it came from, so the worst severity holds for all, and a remedy only if
// none has another.
func (a annotations) merge(b annotations) annotations {
	if rank(b.severity) > rank(a.severity) {
		a.severity = b.severity
	}
	if a.remedy != b.remedy {
		a.remedy = ""
	}
	return a
}

// rank orders severities; a word that is not ours counts as high.
func rank(severity string) int {
	switch severity {
	case gate.SeverityLow:
		return 1
	case gate.SeverityMedium:
		return 2
	case gate.SeverityCritical:
		return 4
	default:
		return 3
	}
}
