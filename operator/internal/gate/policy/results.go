package policy

import (
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// results keep what rules and functions gave while one input is judged. OPA's own store makes
// a map for each part of each name, which was a fifth of what a decision allocates; this one is
// a single map, and used again. It belongs to one goroutine.
type results struct {
	frames []*frame
	// constants are the same for every input, and known before; nil for none.
	constants *frame
}

// frame is what is known where nothing is replaced by `with`, or within one such expression.
type frame struct {
	// first entry for each hash, by its index; further ones follow by next.
	first   map[uint64]int
	entries []entry
	// parts backs the names of entries.
	parts []*ast.Term
}

// entry is what a rule gave, by its name, or a function, by its name and arguments.
type entry struct {
	ref   ast.Ref
	value *ast.Term
	// undefined: it gave nothing.
	undefined bool
	next      int
}

// usualEntries is as many as all rules of the library keep of one object. What took many more
// is not kept for the next one.
const usualEntries = 128

// none ends a list of entries.
const none = -1

var spareResults = sync.Pool{New: func() any {
	r := &results{}
	r.Push()
	return r
}}

func newResults(constants *frame) topdown.VirtualCache {
	r := spareResults.Get().(*results)
	r.constants = constants
	return r
}

// constantsOf the modules are the rules that say nothing but a value: OPA works each out again
// for every input.
func constantsOf(compiler *ast.Compiler) *frame {
	f := &frame{first: map[uint64]int{}}
	for _, module := range compiler.Modules {
		for _, rule := range module.Rules {
			ref := rule.Ref()
			if isConstant(rule) && ref.IsGround() && isAlone(compiler, ref) {
				f.add(hashOf(ref), ref).value = rule.Head.Value
			}
		}
	}
	return f
}

// isAlone says whether no other rule can say anything about a name: p[k] says something about
// p.q too, and it is an error where it is not the same.
func isAlone(compiler *ast.Compiler, ref ast.Ref) bool {
	for i := 1; i < len(ref); i++ {
		if len(compiler.GetRulesExact(ref[:i])) > 0 {
			return false
		}
	}
	return len(compiler.GetRulesExact(ref)) == 1
}

func isConstant(rule *ast.Rule) bool {
	return rule.Head.RuleKind() == ast.SingleValue && len(rule.Head.Args) == 0 && !rule.Default && rule.Else == nil &&
		rule.Head.Value != nil && ast.IsConstant(rule.Head.Value.Value) && rule.Body.Equal(ast.NewBody(ast.NewExpr(ast.BooleanTerm(true))))
}

// giveBack keeps a store for whoever needs one next. Nobody may use it after that.
func giveBack(store topdown.VirtualCache) {
	r, ok := store.(*results)
	if !ok || len(r.frames) != 1 || len(r.frames[0].entries) > 4*usualEntries {
		return
	}
	f := r.frames[0]
	clear(f.first)
	clear(f.entries)
	clear(f.parts)
	f.entries, f.parts = f.entries[:0], f.parts[:0]
	spareResults.Put(r)
}

// Push implements topdown.VirtualCache: what follows is evaluated with something replaced.
func (r *results) Push() {
	r.frames = append(r.frames, &frame{first: map[uint64]int{}})
}

// Pop implements topdown.VirtualCache.
func (r *results) Pop() { r.frames = r.frames[:len(r.frames)-1] }

// Get implements topdown.VirtualCache: a value, or whether it is known that there is none.
func (r *results) Get(ref ast.Ref) (*ast.Term, bool) {
	hash := hashOf(ref)
	e := r.top().find(hash, ref)
	if e == nil && r.constants != nil && len(r.frames) == 1 {
		e = r.constants.find(hash, ref)
	}
	switch {
	case e == nil:
		return nil, false
	case e.undefined:
		return nil, true
	}
	return e.value, false
}

// Put implements topdown.VirtualCache. OPA goes on to use the slice.
func (r *results) Put(ref ast.Ref, value *ast.Term) {
	f, hash := r.top(), hashOf(ref)
	e := f.find(hash, ref)
	if e == nil {
		e = f.add(hash, ref)
	}
	if value == nil {
		e.undefined = true
		return
	}
	e.value = value
}

// Keys implements topdown.VirtualCache.
func (r *results) Keys() []ast.Ref {
	var keys []ast.Ref
	for _, e := range r.top().entries {
		if e.value != nil {
			keys = append(keys, e.ref)
		}
	}
	return keys
}

func (r *results) top() *frame { return r.frames[len(r.frames)-1] }

func (f *frame) find(hash uint64, ref ast.Ref) *entry {
	i, ok := f.first[hash]
	if !ok {
		return nil
	}
	for ; i != none; i = f.entries[i].next {
		if e := &f.entries[i]; slices.EqualFunc(e.ref, ref, (*ast.Term).Equal) {
			return e
		}
	}
	return nil
}

func (f *frame) add(hash uint64, ref ast.Ref) *entry {
	start := len(f.parts)
	f.parts = append(f.parts, ref...)
	next, ok := f.first[hash]
	if !ok {
		next = none
	}
	f.first[hash] = len(f.entries)
	f.entries = append(f.entries, entry{ref: f.parts[start:len(f.parts):len(f.parts)], next: next})
	return &f.entries[len(f.entries)-1]
}

// hashOf a name and arguments: their order counts, as f(1, 2) is not f(2, 1).
func hashOf(ref ast.Ref) uint64 {
	hash := uint64(len(ref))
	for _, term := range ref {
		hash = (hash ^ uint64(term.Hash())) * 0x9E3779B97F4A7C15
	}
	return hash
}
