package policy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// compiled is one unit, ready to be evaluated by many goroutines at once.
type compiled struct {
	rules []rule
	// together asks all rules in one query; nil where each is asked by itself.
	together *rego.PreparedEvalQuery
	// constants are what rules of the library say for every input; nil for other units.
	constants *frame
	// stuck counts evaluations that were left behind because they did not stop.
	stuck atomic.Int32
}

// rule is one set of findings that a source defines, such as data.main.deny.
type rule struct {
	// policy is its name in findings.
	policy string
	// ref is its name in Rego, and compiled the one that it has in the compiled modules.
	ref, compiled string
	warns         bool
	notes         annotations
	// query asks the rule by itself. It is prepared for who is the first to need it, and
	// safe for concurrent use.
	query func() (rego.PreparedEvalQuery, error)
	// manner is what it takes input for; unclear says why that cannot be told.
	manner  manner
	unclear string
}

// ruleNames are those that conftest evaluates, so that its policies are not passed over.
var ruleNames = regexp.MustCompile(`^(deny|violation|warn)(_[A-Za-z0-9_]+)?$`)

// Compile says why a set of modules cannot be used: too large, not Rego v1, a function
// that policies may not call, a deny that is not a set, or no rule at all. The message
// has file and line. Admission of a Gate calls it. It takes limits.PolicyCompile at most.
func Compile(set gate.PolicySet) error {
	done := make(chan error, 1)
	go func() {
		_, err := compileUnit(unit{set})
		done <- err
	}()
	deadline := time.NewTimer(limits.PolicyCompile)
	defer deadline.Stop()
	select {
	case err := <-done:
		return err
	case <-deadline.C:
		return fmt.Errorf("compiling takes longer than %s (limits.PolicyCompile): split or simplify the modules", limits.PolicyCompile)
	}
}

func compileUnit(u unit) (_ *compiled, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the Rego compiler failed: %v", r)
		}
	}()
	modules := map[string]*ast.Module{}
	for _, set := range u {
		if err := parse(set, modules); err != nil {
			return nil, err
		}
	}
	if u.ours() {
		if err := flatten(modules); err != nil {
			return nil, err
		}
	}
	compiler := ast.NewCompiler().WithCapabilities(capabilities()).WithDefaultRegoVersion(ast.RegoV1)
	if compiler.Compile(modules); compiler.Failed() {
		return nil, explain(compiler.Errors)
	}
	if err := checkValues(compiler); err != nil {
		return nil, err
	}
	var found []rule
	for _, set := range u {
		rules, err := findRules(set, compiler)
		if err != nil {
			return nil, err
		}
		found = append(found, rules...)
	}
	setManners(compiler, found)
	meterCalls(compiler)
	meterValues(compiler)
	c, err := prepare(compiler, found, u.ours())
	if err == nil && u.ours() {
		c.constants = constantsOf(compiler)
	}
	return c, err
}

// results are a store for one input.
func (c *compiled) results() topdown.VirtualCache { return newResults(c.constants) }

// parse adds the modules of a set to those that are there. What of the library is in several
// groups is the same in each.
func parse(set gate.PolicySet, modules map[string]*ast.Module) error {
	if err := checkSize(set); err != nil {
		return err
	}
	options := ast.ParserOptions{ProcessAnnotation: true, RegoVersion: ast.RegoV1, Capabilities: capabilities()}
	for _, name := range sortedKeys(set.Modules) {
		if modules[name] != nil {
			continue
		}
		text := set.Modules[name]
		if line := tooDeep(text); line > 0 {
			return fmt.Errorf("%s:%d: brackets nest more than %d deep (limits.PolicyNesting)", name, line, limits.PolicyNesting)
		}
		module, err := ast.ParseModuleWithOpts(name, text, options)
		if err != nil {
			return explain(err)
		}
		if module == nil {
			return fmt.Errorf("%s:1: the module is empty: start it with a package and write a rule", name)
		}
		if err := checkShape(module); err != nil {
			return err
		}
		modules[name] = module
	}
	return nil
}

func checkSize(set gate.PolicySet) error {
	size := 0
	for name, text := range set.Modules {
		size += len(name) + len(text)
	}
	switch {
	case len(set.Modules) == 0:
		return errors.New("the source holds no Rego module: give it at least one file that ends in .rego")
	case size > limits.PolicyBytes:
		return fmt.Errorf("the modules are %d bytes, more than %d (limits.PolicyBytes): split them into several sources",
			size, limits.PolicyBytes)
	}
	return nil
}

// findRules finds every rule of every package of a set that gives findings, in stable order.
func findRules(set gate.PolicySet, compiler *ast.Compiler) ([]rule, error) {
	byRef, ours := map[string]*rule{}, isBuiltin(set)
	for _, name := range sortedKeys(set.Modules) {
		module := compiler.Modules[name]
		for _, r := range module.Rules {
			word := string(r.Head.Ref()[0].Value.(ast.Var))
			if !ruleNames.MatchString(word) || len(r.Head.Args) > 0 {
				continue
			}
			if len(r.Head.Ref()) > 1 || r.Head.RuleKind() != ast.MultiValue {
				return nil, fmt.Errorf("%s: %s is not a set of findings: write it as %q", at(r.Location), word, word+" contains msg if { … }")
			}
			compiled := module.Package.Path.String() + "." + word
			ref := compiled
			if ours {
				ref = "data." + strings.Join(wordsOf(module.Package.Path), ".") + "." + word
			}
			notes, err := readAnnotations(compiler.GetAnnotationSet(), r)
			if err != nil {
				return nil, err
			}
			if known, ok := byRef[ref]; ok {
				known.notes = known.notes.merge(notes)
				continue
			}
			byRef[ref] = &rule{
				policy: policyName(set.Name, module.Package.Path), ref: ref, compiled: compiled,
				warns: strings.HasPrefix(word, "warn"), notes: notes,
			}
		}
	}
	if len(byRef) == 0 {
		return nil, fmt.Errorf("no module of %s defines deny, violation or warn, so that it would allow everything: write a rule such as %q",
			strings.Join(sortedKeys(set.Modules), ", "), "deny contains msg if { … }")
	}
	found := make([]rule, 0, len(byRef))
	for _, ref := range sortedKeys(byRef) {
		found = append(found, *byRef[ref])
	}
	return found, nil
}

// policyName is group/rule for the library, and set/package for everyone else.
func policyName(set string, pkg ast.Ref) string {
	name := strings.Join(wordsOf(pkg), ".")
	words := strings.Split(name, ".")
	if _, builtin := Builtin(set); builtin && len(words) == 3 && words[0] == "sluice" && (words[1] == set || words[1] == included[set]) {
		return set + "/" + strings.ReplaceAll(words[2], "_", "-")
	}
	return set + "/" + name
}

func prepare(compiler *ast.Compiler, found []rule, ours bool) (*compiled, error) {
	store := inmem.New()
	query := func(body ast.Body) (rego.PreparedEvalQuery, error) {
		options := append(meteredFunctions(),
			rego.ParsedQuery(body), rego.Compiler(compiler), rego.Store(store), rego.StrictBuiltinErrors(true))
		return rego.New(options...).PrepareForEval(context.Background())
	}
	var refs []string
	for i := range found {
		ref := found[i].compiled
		refs = append(refs, ref)
		found[i].query = sync.OnceValues(func() (q rego.PreparedEvalQuery, err error) {
			body, err := ast.ParseBodyWithOpts(ref, ast.ParserOptions{RegoVersion: ast.RegoV1})
			if err == nil {
				q, err = query(body)
			}
			if err != nil {
				return q, fmt.Errorf("%s: %w", ref, explain(err))
			}
			return q, nil
		})
	}
	asObject := func(r rule) bool { return r.manner != envelope || r.unclear != "" }
	if ours && !slices.ContainsFunc(found, asObject) {
		// Those by themselves are for when this fails.
		all, err := query(ast.MustParseBody("[" + strings.Join(refs, ", ") + "]"))
		if err != nil {
			return nil, explain(err)
		}
		return &compiled{rules: found, together: &all}, nil
	}
	for i := range found {
		if _, err := found[i].query(); err != nil {
			return nil, err
		}
	}
	return &compiled{rules: found}, nil
}

// explain turns OPA's errors into one line: file:line, and what is wrong. More than a
// few errors follow from the first ones.
func explain(err error) error {
	var all ast.Errors
	if !errors.As(err, &all) || len(all) == 0 {
		return err
	}
	const shown = 3
	var lines []string
	for _, e := range all[:min(shown, len(all))] {
		message := e.Message
		if name, ok := strings.CutPrefix(message, "undefined function "); ok && ast.BuiltinMap[name] != nil {
			message = fmt.Sprintf("function %s is not available to policies: a decision may depend on its input alone, "+
				"and not on network, clock, randomness or environment", name)
		}
		lines = append(lines, at(e.Location)+": "+message)
	}
	if more := len(all) - shown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more errors", more))
	}
	return errors.New(strings.Join(lines, "; "))
}

func at(location *ast.Location) string {
	if location == nil {
		return "policy"
	}
	return fmt.Sprintf("%s:%d", location.File, location.Row)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
