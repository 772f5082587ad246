package policy

import (
	"fmt"
	"sort"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// manner is what a rule takes input for.
type manner int

const (
	// envelope: what docs/policy-input.md describes.
	envelope manner = iota
	// perObject: one Kubernetes object, as policies for conftest do. The rule is evaluated
	// for each object.
	perObject
	// driven: one object, which another rule of the source gives it by "with input as".
	// That rule is evaluated, and not this one.
	driven
)

// envelopeFields are the fields of the envelope.
var envelopeFields = fieldSet("environment namespace workload object children images parameters")

// objectFields are fields of Kubernetes objects by which a policy tells that it takes input
// for one. The envelope has none of them.
var objectFields = fieldSet("apiVersion kind metadata spec status data stringData binaryData immutable type " +
	"rules roleRef subjects secrets imagePullSecrets automountServiceAccountToken webhooks provisioner")

func fieldSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(words) {
		set[word] = true
	}
	return set
}

// uses is what one rule does by itself.
type uses struct {
	// fields of input that it reads, and the first place of each.
	fields map[string]*ast.Location
	// calls are the rules and functions that it refers to, gives those that it refers to
	// with another input.
	calls, gives []*ast.Rule
	// aliases are variables that hold all of input: the compiler makes some, policies others.
	aliases map[ast.Var]bool
}

// reader finds out what rules take input for. It sees fields that are written out, as
// input.kind or object.get(input, "kind", ""); of a rule that only has input as a whole,
// or by a variable, it knows nothing, and that one gets the envelope.
type reader struct {
	compiler *ast.Compiler
	known    map[*ast.Rule]*uses
}

// reads are the fields of the envelope, of objects and of neither that a rule reads, with
// all that it calls, and those rules.
type reads struct {
	whole, object, unknown map[string]*ast.Location
	rules                  []*ast.Rule
}

// setManners decides for each rule; modules are as compiled, and not metered yet.
func setManners(compiler *ast.Compiler, found []rule) {
	r := &reader{compiler: compiler, known: map[*ast.Rule]*uses{}}
	all := make([]reads, len(found))
	// given are the rules that others are given objects by, told apart by whether those deny:
	// that a rule warns of what another denies does not stand in for the denial.
	given := map[bool]map[*ast.Rule]bool{false: {}, true: {}}
	for i := range found {
		all[i] = r.reads(found[i].compiled)
		if len(all[i].object) > 0 {
			// It hands on parts of its own object, such as the pod of a Deployment; that the
			// other rule is asked about whole objects too does not come of it.
			continue
		}
		for _, inner := range all[i].rules {
			for _, rule := range r.closure(r.of(inner).gives, true) {
				given[found[i].warns][rule] = true
			}
		}
	}
	for i := range found {
		isGiven := len(all[i].rules) > 0 && (given[false][all[i].rules[0]] || found[i].warns && given[true][all[i].rules[0]])
		switch object, whole, unknown := all[i].object, all[i].whole, all[i].unknown; {
		case len(object) > 0 && len(whole) > 0:
			found[i].unclear = bothManners(object, whole)
		case len(object)+len(unknown) > 0 && len(whole) == 0 && isGiven:
			found[i].manner = driven
		case len(object) > 0:
			found[i].manner = perObject
		case len(unknown) > 0 && len(whole) == 0:
			found[i].unclear = noManner(unknown)
		}
	}
}

func (r *reader) reads(ref string) reads {
	out := reads{whole: map[string]*ast.Location{}, object: map[string]*ast.Location{}, unknown: map[string]*ast.Location{}}
	out.rules = r.closure(r.compiler.GetRulesExact(ast.MustParseRef(ref)), false)
	for _, inner := range out.rules {
		for field, location := range r.of(inner).fields {
			switch {
			case envelopeFields[field]:
				out.whole[field] = location
			case objectFields[field]:
				out.object[field] = location
			default:
				out.unknown[field] = location
			}
		}
	}
	return out
}

// bothManners says where: such a rule would find nothing, whatever input it is given.
func bothManners(object, whole map[string]*ast.Location) string {
	a, b := sortedKeys(object)[0], sortedKeys(whole)[0]
	return fmt.Sprintf("it takes input for one Kubernetes object (input.%s, %s) and for what Sluice gives (input.%s, %s): "+
		"for both, write input.object or some child in input.children in place of the first", a, at(object[a]), b, at(whole[b]))
}

// noManner says where: a rule for some other input, such as an AdmissionReview's, would
// find nothing in any that it is given, and so allow everything.
func noManner(unknown map[string]*ast.Location) string {
	a := sortedKeys(unknown)[0]
	return fmt.Sprintf("it takes input for something else (input.%s, %s), and finds nothing in what Sluice gives and in a Kubernetes object: "+
		"write input.object, some child in input.children, or input.kind and the like", a, at(unknown[a]))
}

// closure is the rules and all that they call with the same input; with all, also what
// they call with another.
func (r *reader) closure(from []*ast.Rule, all bool) []*ast.Rule {
	seen := map[*ast.Rule]bool{}
	var out []*ast.Rule
	queue := append([]*ast.Rule(nil), from...)
	for len(queue) > 0 {
		rule := queue[0]
		queue = queue[1:]
		if seen[rule] {
			continue
		}
		seen[rule] = true
		out = append(out, rule)
		queue = append(queue, r.of(rule).calls...)
		if all {
			queue = append(queue, r.of(rule).gives...)
		}
	}
	return out
}

func (r *reader) of(rule *ast.Rule) *uses {
	u, ok := r.known[rule]
	if !ok {
		u = &uses{fields: map[string]*ast.Location{}, aliases: map[ast.Var]bool{}}
		r.known[rule] = u
		for before := -1; before < len(u.aliases); {
			before = len(u.aliases)
			u.findAliases(rule)
		}
		r.visit(rule, u, false)
	}
	return u
}

// visit collects what x does; other says that it is evaluated with another input.
func (r *reader) visit(x any, u *uses, other bool) {
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			return r.expression(x, u, other)
		case ast.Ref:
			r.reference(x, u, other)
		}
		return false
	}).Walk(x)
}

// expression says whether it has seen to everything in it.
func (r *reader) expression(e *ast.Expr, u *uses, other bool) bool {
	if !other && e.IsCall() && e.Operator().String() == "object.get" && u.isInput(e.Operand(0)) {
		if field, ok := firstField(e.Operand(1)); ok {
			u.note(field, e.Location)
		}
	}
	if !otherInput(e) {
		return false
	}
	for _, with := range e.With {
		r.visit(with.Value, u, other)
	}
	bare := e.Copy()
	bare.With = nil
	r.visit(bare, u, true)
	return true
}

func (r *reader) reference(ref ast.Ref, u *uses, other bool) {
	switch {
	case len(ref) > 1 && u.isInput(ref[0]):
		if field, ok := ref[1].Value.(ast.String); ok && !other {
			u.note(string(field), ref[0].Location)
		}
	case ref.HasPrefix(ast.DefaultRootRef):
		rules := r.compiler.GetRulesDynamicWithOpts(ref, ast.RulesOptions{IncludeHiddenModules: true})
		sort.SliceStable(rules, func(i, j int) bool { return rules[i].Location.Compare(rules[j].Location) < 0 })
		if other {
			u.gives = append(u.gives, rules...)
		} else {
			u.calls = append(u.calls, rules...)
		}
	}
}

func (u *uses) note(field string, location *ast.Location) {
	if known := u.fields[field]; known == nil || location.Compare(known) < 0 {
		u.fields[field] = location
	}
}

// findAliases adds what is the same as input or as an alias; variables have names of their
// own within a compiled module.
func (u *uses) findAliases(rule *ast.Rule) {
	ast.WalkExprs(rule, func(e *ast.Expr) bool {
		if otherInput(e) {
			return true
		}
		if e.IsEquality() || e.IsAssignment() {
			u.alias(e.Operand(0), e.Operand(1))
			u.alias(e.Operand(1), e.Operand(0))
		}
		return false
	})
}

func (u *uses) alias(variable, value *ast.Term) {
	if name, ok := variable.Value.(ast.Var); ok && u.isInput(value) {
		u.aliases[name] = true
	}
}

// isInput: input is a variable at the head of a reference, and a reference by itself.
func (u *uses) isInput(term *ast.Term) bool {
	switch value := term.Value.(type) {
	case ast.Var:
		return u.aliases[value] || value.Equal(ast.InputRootDocument.Value)
	case ast.Ref:
		return len(value) == 1 && u.isInput(value[0])
	}
	return false
}

// otherInput says whether an expression is evaluated with another input.
func otherInput(e *ast.Expr) bool {
	for _, with := range e.With {
		if target, ok := with.Target.Value.(ast.Ref); ok && target.Equal(ast.InputRootRef) {
			return true
		}
	}
	return false
}

// firstField is the key of object.get, or the first of its path.
func firstField(key *ast.Term) (string, bool) {
	if path, ok := key.Value.(*ast.Array); ok && path.Len() > 0 {
		key = path.Elem(0)
	}
	field, ok := key.Value.(ast.String)
	return string(field), ok
}
