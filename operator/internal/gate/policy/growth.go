package policy

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// growth is how many parts a value has at most that OPA puts together in one go: growth[0]
// of its own, and growth[i] times those of the i-th argument of the function it is in. What
// is read from input or data, or made by a built-in function or a comprehension, is there
// already, and one part.
//
// Arguments from the sixteenth on count as the largest of them: a function of thousands would
// take gigabytes to count.
type growth []int

const argumentSlots = 16

// slotsOf so many arguments.
func slotsOf(arguments int) int { return min(arguments, argumentSlots) }

// slotOf the i-th argument, from 0.
func slotOf(i int) int { return min(i, argumentSlots-1) }

// one is a value that is there already, in a function of so many arguments.
func one(arguments int) growth {
	g := make(growth, arguments+1)
	g[0] = 1
	return g
}

// add puts another value in.
func (g growth) add(other growth) {
	for i, n := range other {
		g[i] = sum(g[i], n)
	}
}

// either is what holds for both, whichever it is.
func (g growth) either(other growth) {
	for i, n := range other {
		g[i] = max(g[i], n)
	}
}

// times is as many values of this size.
func (g growth) times(n int) growth {
	out := make(growth, len(g))
	for i, m := range g {
		out[i] = product(m, n)
	}
	return out
}

// within is g of a function that is called with such arguments, in one of so many.
func (g growth) within(given []growth, arguments int) growth {
	out := make(growth, arguments+1)
	out[0] = g[0]
	for i, n := range g[1:] {
		for j, m := range given[i] {
			out[j] = sum(out[j], product(n, m))
		}
	}
	return out
}

// effect of a function: how large its result is, and the largest value within it.
type effect struct{ result, largest growth }

// checkValues refuses rules that write a value out of other values so often that it has
// more than limits.PolicyValueParts parts: [x, x] of [y, y] and so on, in one rule or by
// functions. A result of a function is written out anew by each that takes it on.
func checkValues(compiler *ast.Compiler) error {
	c := newCounter(compiler)
	for _, rule := range c.rules {
		// A function's values are those of whoever calls it.
		if len(rule.Head.Args) > 0 {
			continue
		}
		if err := c.check(rule); err != nil {
			return err
		}
	}
	return nil
}

// meterValues has comprehensions, functions and rules charge the meter for each value of
// more than limits.PolicyElementParts parts: what they make is kept, and their steps count
// it as one whatever its size.
func meterValues(compiler *ast.Compiler) {
	c := newCounter(compiler)
	for _, rule := range c.rules {
		s := c.scope(rule)
		visit := func(x any) bool {
			switch x := x.(type) {
			case *ast.ArrayComprehension:
				s.charge(&x.Body, x.Term)
			case *ast.SetComprehension:
				s.charge(&x.Body, x.Term)
			case *ast.ObjectComprehension:
				s.charge(&x.Body, x.Key, x.Value)
			}
			return false
		}
		ast.NewGenericVisitor(visit).Walk(rule.Head)
		ast.NewGenericVisitor(visit).Walk(rule.Body)
		s.charge(&rule.Body, rule.Head.Key, rule.Head.Value)
	}
}

// charge has a body end with a call that charges for values, where they are large.
func (s *scope) charge(body *ast.Body, values ...*ast.Term) {
	parts := 0
	var where *ast.Location
	for _, t := range values {
		if t != nil {
			where = t.Location
			for _, n := range s.term(t) {
				parts = sum(parts, n)
			}
		}
	}
	if parts > limits.PolicyElementParts {
		call := ast.NewExpr([]*ast.Term{ast.NewTerm(ast.Ref{ast.VarTerm(madeName)}), ast.IntNumberTerm(parts)})
		call.Location = where
		body.Append(call)
	}
}

func newCounter(compiler *ast.Compiler) *counter {
	c := &counter{functions: map[string][]*ast.Rule{}, stands: map[string][]string{}, known: map[string]*effect{}}
	names := sortedKeys(compiler.Modules)
	for _, name := range names {
		for _, rule := range compiler.Modules[name].Rules {
			for r := rule; r != nil; r = r.Else {
				c.rules = append(c.rules, r)
				if len(rule.Head.Args) > 0 {
					ref := rule.Ref().String()
					c.functions[ref] = append(c.functions[ref], r)
				}
			}
		}
	}
	for _, name := range names {
		c.noteReplaced(compiler.Modules[name])
	}
	return c
}

// counter knows the rules and functions of all modules of a source.
type counter struct {
	rules     []*ast.Rule
	functions map[string][]*ast.Rule
	// stands are the functions that `with` puts in the place of another.
	stands map[string][]string
	// known effects by function; nil while one is being found.
	known map[string]*effect
}

func (c *counter) noteReplaced(module *ast.Module) {
	ast.WalkExprs(module, func(expr *ast.Expr) bool {
		for _, with := range expr.With {
			if by := with.Value.String(); c.functions[by] != nil {
				c.stands[with.Target.String()] = append(c.stands[with.Target.String()], by)
			}
		}
		return false
	})
}

// effect of a function; nil for what is none of the policy's own.
func (c *counter) effect(name string) *effect {
	if e, ok := c.known[name]; ok {
		return e
	}
	c.known[name] = nil // Rego has no recursion but through `with`, which counts once
	var out *effect
	take := func(e effect) {
		if out == nil {
			out = &effect{slices.Clone(e.result), slices.Clone(e.largest)}
			return
		}
		out.result.either(e.result)
		out.largest.either(e.largest)
	}
	for _, rule := range c.functions[name] {
		s := c.scope(rule)
		e := effect{result: s.term(rule.Head.Value), largest: one(s.arguments)}
		e.largest.either(e.result)
		e.largest.either(s.elements(rule.Head.Value))
		s.each(func(_ *ast.Expr, g growth) bool { e.largest.either(g); return true })
		take(e)
	}
	for _, stand := range c.stands[name] {
		if e := c.effect(stand); e != nil && (out == nil || len(e.result) == len(out.result)) {
			take(*e)
		}
	}
	c.known[name] = out
	return out
}

func (c *counter) check(rule *ast.Rule) error {
	s := c.scope(rule)
	var where *ast.Location
	s.each(func(expr *ast.Expr, g growth) bool {
		if g[0] > limits.PolicyValueParts {
			where = expr.Location
		}
		return where == nil
	})
	for _, t := range []*ast.Term{rule.Head.Key, rule.Head.Value} {
		if where == nil && t != nil && max(s.term(t)[0], s.elements(t)[0]) > limits.PolicyValueParts {
			where = rule.Location
		}
	}
	if where == nil {
		return nil
	}
	return fmt.Errorf("%s: a value is written out of others so that it has more than %d parts (limits.PolicyValueParts): take the fields of them that are needed, or have a rule or a comprehension make them",
		at(where), limits.PolicyValueParts)
}

// scope is one rule, with what its variables are written as.
type scope struct {
	counter   *counter
	rule      *ast.Rule
	arguments int
	written   map[ast.Var][]func() growth
	parts     map[ast.Var]growth
	// field is the ref that a variable stands for: the compiler gives most of them one.
	field map[ast.Var]ast.Ref
}

func (c *counter) scope(rule *ast.Rule) *scope {
	s := &scope{
		counter: c, rule: rule, arguments: slotsOf(len(rule.Head.Args)),
		written: map[ast.Var][]func() growth{}, parts: map[ast.Var]growth{}, field: map[ast.Var]ast.Ref{},
	}
	for i, argument := range rule.Head.Args {
		given := make(growth, s.arguments+1)
		given[slotOf(i)+1] = 1
		ast.WalkVars(argument, func(v ast.Var) bool { s.parts[v] = given; return false })
	}
	bound := map[ast.Var]bool{}
	s.exprs(func(expr *ast.Expr) bool {
		if expr.IsEquality() || expr.IsAssignment() {
			s.unify(bound, expr.Operand(0), expr.Operand(1))
		} else if e, given, result := s.call(expr); result != nil {
			s.note(bound, result, func() growth { return e().result.within(given(), s.arguments) })
		}
		bind(bound, expr)
		return true
	})
	return s
}

// unify notes either side as the other; of two lists that are written out, part by part.
func (s *scope) unify(bound map[ast.Var]bool, a, b *ast.Term) {
	if left, ok := a.Value.(*ast.Array); ok {
		if right, ok := b.Value.(*ast.Array); ok && left.Len() == right.Len() {
			for i := range left.Len() {
				s.unify(bound, left.Elem(i), right.Elem(i))
			}
			return
		}
	}
	for _, side := range [][2]*ast.Term{{a, b}, {b, a}} {
		if v, ok := side[0].Value.(ast.Var); ok && !bound[v] {
			s.field[v], _ = side[1].Value.(ast.Ref)
		}
	}
	s.note(bound, a, func() growth { return s.term(b) })
	s.note(bound, b, func() growth { return s.term(a) })
}

// note has the variables of a pattern written as a value, but for those that are bound
// before. The compiler has given each variable of a rule a name of its own, and put the
// expressions into the order in which they bind.
func (s *scope) note(bound map[ast.Var]bool, pattern *ast.Term, value func() growth) {
	switch pattern.Value.(type) {
	case ast.Var, *ast.Array, ast.Object, ast.Set:
		value = sync.OnceValue(value) // a pattern may have tens of thousands of variables
		ast.WalkVars(pattern, func(v ast.Var) bool {
			if !bound[v] {
				s.written[v] = append(s.written[v], value)
			}
			return false
		})
	}
}

// bind takes in what is bound after an expression; what is within it is visited later.
func bind(bound map[ast.Var]bool, expr *ast.Expr) {
	for _, t := range expr.Operands() {
		ast.NewGenericVisitor(func(x any) bool {
			switch x := x.(type) {
			case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
				return true
			case ast.Var:
				bound[x] = true
			}
			return false
		}).Walk(t)
	}
}

// call is a call of a function of the policy's own. result is where its result goes, and nil
// where it has none, or where expr is another.
func (s *scope) call(expr *ast.Expr) (of func() effect, given func() []growth, result *ast.Term) {
	if !expr.IsCall() {
		return nil, nil, nil
	}
	name, operands := expr.Operator().String(), expr.Operands()
	if s.counter.functions[name] == nil && s.counter.stands[name] == nil {
		return nil, nil, nil
	}
	arguments := func() int {
		if rules := s.counter.functions[name]; rules != nil {
			return len(rules[0].Head.Args)
		}
		return len(s.counter.functions[s.counter.stands[name][0]][0].Head.Args)
	}()
	if len(operands) < arguments {
		return nil, nil, nil // the compiler refuses it
	}
	if len(operands) > arguments {
		result = operands[arguments]
	}
	of = func() effect {
		if e := s.counter.effect(name); e != nil && len(e.result) == slotsOf(arguments)+1 {
			return *e
		}
		return effect{one(slotsOf(arguments)), one(slotsOf(arguments))}
	}
	given = func() []growth {
		out := make([]growth, slotsOf(arguments))
		for i, operand := range operands[:arguments] {
			if g := s.term(operand); out[slotOf(i)] == nil {
				out[slotOf(i)] = slices.Clone(g)
			} else {
				out[slotOf(i)].either(g)
			}
		}
		return out
	}
	return of, given, result
}

// exprs visits all of the rule but its else branches, which are rules of their own.
func (s *scope) exprs(visit func(*ast.Expr) bool) {
	more := true
	walk := func(expr *ast.Expr) bool {
		more = more && visit(expr)
		return !more
	}
	ast.WalkExprs(s.rule.Body, walk)
	ast.WalkExprs(s.rule.Head, walk)
}

// each visits the expressions with the largest value that each takes.
func (s *scope) each(visit func(*ast.Expr, growth) bool) {
	s.exprs(func(expr *ast.Expr) bool {
		largest := one(s.arguments)
		for _, operand := range expr.Operands() {
			largest.either(s.term(operand))
			largest.either(s.elements(operand))
		}
		if t, ok := expr.Terms.(*ast.Term); ok {
			largest.either(s.term(t))
			largest.either(s.elements(t))
		}
		for _, with := range expr.With {
			largest.either(s.term(with.Value))
		}
		if of, given, _ := s.call(expr); of != nil {
			largest.either(of().largest.within(given(), s.arguments))
		}
		return visit(expr, largest)
	})
}

// term is a value with all that is written into it. What a comprehension made is there
// already.
func (s *scope) term(t *ast.Term) growth {
	switch v := t.Value.(type) {
	case ast.Var:
		return s.variable(v)
	case ast.Ref: // to OPA it is ground where its head alone is a variable
		return s.selected(v)
	}
	if t.IsGround() {
		return one(s.arguments)
	}
	g, apart := make(growth, s.arguments+1), fields{}
	ast.WalkTerms(t, func(x *ast.Term) bool {
		switch v := x.Value.(type) {
		case ast.Var:
			if len(s.written[v]) != 1 || !apart.take(s.field[v]) {
				g.add(s.variable(v))
			}
			return false
		case ast.Ref:
			if !apart.take(v) {
				g.add(s.selected(v))
			}
			return true
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			g[0] = sum(g[0], 1)
			return true
		}
		g[0] = sum(g[0], 1)
		return x.IsGround()
	})
	for _, v := range slices.Sorted(maps.Keys(apart)) {
		whole, most := s.variable(v), 0
		for _, n := range apart[v] {
			g[0], most = sum(g[0], n), max(most, n)
		}
		if !slices.Equal(whole, one(s.arguments)) { // of what is there already each is one part
			g.add(whole.times(most))
		}
	}
	return g
}

// fields are how often each field of a variable is written into a value: different ones are
// together no larger than the variable.
type fields map[ast.Var]map[ast.String]int

// take counts a ref, where it is to a field by its name and what follows that holds no value
// that is written out.
func (f fields) take(ref ast.Ref) bool {
	if len(ref) < 2 {
		return false
	}
	of, ok1 := ref[0].Value.(ast.Var)
	name, ok2 := ref[1].Value.(ast.String)
	if !ok1 || !ok2 || slices.ContainsFunc(ref[2:], composite) {
		return false
	}
	if f[of] == nil {
		f[of] = map[ast.String]int{}
	}
	f[of][name]++
	return true
}

func composite(t *ast.Term) bool {
	_, variable := t.Value.(ast.Var)
	return !variable && !ast.IsScalar(t.Value)
}

// selected is the value of a ref: no larger than that which it is selected from.
func (s *scope) selected(ref ast.Ref) growth {
	g := one(s.arguments)
	for _, t := range ref {
		g.either(s.term(t))
	}
	return g
}

// elements is the largest element of the comprehensions in a term, each as it is made.
func (s *scope) elements(t *ast.Term) growth {
	g := one(s.arguments)
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension:
			g.either(s.term(x.Term))
		case *ast.SetComprehension:
			g.either(s.term(x.Term))
		case *ast.ObjectComprehension:
			g.either(s.term(x.Key))
			g.either(s.term(x.Value))
		}
		return false
	}).Walk(t)
	return g
}

// variable is the largest value that one is written as. One that is being counted already
// counts as one.
func (s *scope) variable(v ast.Var) growth {
	if g, ok := s.parts[v]; ok {
		return g
	}
	s.parts[v] = one(s.arguments)
	largest := one(s.arguments)
	for _, value := range s.written[v] {
		largest.either(value())
	}
	s.parts[v] = largest
	return largest
}
