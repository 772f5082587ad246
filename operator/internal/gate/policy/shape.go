package policy

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// tooDeep returns the line at which brackets nest deeper than limits.PolicyNesting, 0 if
// they never do. It counts brackets inside strings and comments too: good enough for a
// bound that no policy written by hand comes near.
func tooDeep(text string) int {
	depth, line := 0, 1
	for i := range len(text) {
		switch text[i] {
		case '\n':
			line++
		case '(', '[', '{':
			if depth++; depth > limits.PolicyNesting {
				return line
			}
		case ')', ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return 0
}

// checkShape refuses modules that OPA's compiler takes minutes for, or overflows on.
func checkShape(module *ast.Module) error {
	var err error
	depth := 0
	nests := func(x any) bool {
		switch x.(type) {
		case *ast.Term, *ast.Rule:
			return true
		}
		return false
	}
	ast.NewBeforeAfterVisitor(func(x any) bool {
		if nests(x) {
			depth++
		}
		if body, ok := x.(ast.Body); ok && len(body) > limits.PolicyBodyExpressions {
			err = fmt.Errorf("%s: a rule has more than %d conditions (limits.PolicyBodyExpressions): split it",
				at(body.Loc()), limits.PolicyBodyExpressions)
		}
		if depth > limits.PolicyNesting && err == nil {
			err = fmt.Errorf("%s: terms or else branches nest more than %d deep (limits.PolicyNesting): split the rule",
				at(module.Package.Location), limits.PolicyNesting)
		}
		return err != nil
	}, func(x any) {
		if nests(x) {
			depth--
		}
	}).Walk(module)
	return err
}
