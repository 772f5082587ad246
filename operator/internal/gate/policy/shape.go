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

// checkValues refuses rules that write a value out of other values so often that it has
// more than limits.PolicyValueParts parts. OPA puts such a value together in one go.
func checkValues(compiler *ast.Compiler) error {
	for _, name := range sortedKeys(compiler.Modules) {
		written := map[ast.Var][]*ast.Term{}
		ast.WalkExprs(compiler.Modules[name], func(expr *ast.Expr) bool {
			if expr.IsEquality() || expr.IsAssignment() {
				a, b := expr.Operand(0), expr.Operand(1)
				note(written, a, b)
				note(written, b, a)
			}
			return false
		})
		parts := map[ast.Var]int{}
		for variable, values := range written {
			if countParts(variable, written, parts) > limits.PolicyValueParts {
				return fmt.Errorf("%s: a value is written out of others so that it has more than %d parts (limits.PolicyValueParts)",
					at(values[0].Location), limits.PolicyValueParts)
			}
		}
	}
	return nil
}

func note(written map[ast.Var][]*ast.Term, variable, value *ast.Term) {
	name, ok := variable.Value.(ast.Var)
	if !ok {
		return
	}
	switch value.Value.(type) {
	case *ast.Array, ast.Object, ast.Set, ast.Var:
		written[name] = append(written[name], value)
	}
}

// countParts of the largest value a variable is written as; names are unique within a
// compiled module. A variable that is being counted already counts as one.
func countParts(variable ast.Var, written map[ast.Var][]*ast.Term, parts map[ast.Var]int) int {
	if n, ok := parts[variable]; ok {
		return n
	}
	parts[variable] = 1
	largest := 1
	for _, value := range written[variable] {
		n := 1
		ast.WalkVars(value, func(inner ast.Var) bool {
			n = sum(n, countParts(inner, written, parts))
			return false
		})
		largest = max(largest, n)
	}
	parts[variable] = largest
	return largest
}
