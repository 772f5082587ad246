package policy

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

var nameParts = []*ast.Term{
	ast.StringTerm("lib"), ast.StringTerm("a"), ast.IntNumberTerm(1), ast.IntNumberTerm(2), ast.NumberTerm("1.5"), ast.NumberTerm("1.25"),
	ast.NullTerm(), ast.ArrayTerm(ast.IntNumberTerm(1)), ast.ObjectTerm(ast.Item(ast.StringTerm("a"), ast.IntNumberTerm(1))), ast.NewTerm(ast.MustParseRef("data.lib.f")),
}

// randomName is a rule, or a function with arguments, out of few, so that many are the same,
// begin with one another, or have the same parts in another order.
func randomName(r *rand.Rand) ast.Ref {
	ref := ast.Ref{ast.DefaultRootDocument}
	for range 1 + r.IntN(3) {
		ref = append(ref, pick(r, nameParts...))
	}
	return ref
}

func TestResults_KeepWhatTheStoreOfOPAKeeps(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		ours, theirs := newResults(nil), topdown.NewVirtualCache()
		depth, found := 0, 0
		for step := range 400 {
			switch name := randomName(r); r.IntN(8) {
			case 0:
				if depth < 2 {
					ours.Push()
					theirs.Push()
					depth++
				}
			case 1:
				if depth > 0 {
					ours.Pop()
					theirs.Pop()
					depth--
				}
			case 2, 3:
				value := pick(r, nil, ast.IntNumberTerm(step))
				ours.Put(name, value)
				theirs.Put(name, value)
				name[len(name)-1] = ast.StringTerm("the slice is the caller's")
			default:
				got, gotUndefined := ours.Get(name)
				want, wantUndefined := theirs.Get(name)
				if got != want || gotUndefined != wantUndefined {
					t.Fatalf("seed %d, %v: %v, %v; want %v, %v", seed, name, got, gotUndefined, want, wantUndefined)
				}
				if got != nil || gotUndefined {
					found++
				}
			}
		}
		if got, want := len(ours.Keys()), len(theirs.Keys()); got != want {
			t.Fatalf("seed %d: %d keys, want %d", seed, got, want)
		}
		if found == 0 {
			t.Fatalf("seed %d: nothing was ever found", seed)
		}
		for ; depth > 0; depth-- {
			ours.Pop()
		}
		giveBack(ours)
	}
}

func TestResults_AreEmptyForTheNextInput(t *testing.T) {
	name := ast.MustParseRef("data.lib.pods.all_pods")
	for _, entries := range []int{1, 4 * usualEntries, 40 * usualEntries} {
		store := newResults(nil)
		for i := range entries {
			store.Put(append(name[:len(name):len(name)], ast.IntNumberTerm(i)), ast.IntNumberTerm(i))
		}
		giveBack(store)
		next := newResults(nil)
		if keys := next.Keys(); len(keys) > 0 {
			t.Errorf("after %d entries: %v", entries, keys)
		}
		if value, undefined := next.Get(append(name[:len(name):len(name)], ast.IntNumberTerm(0))); value != nil || undefined {
			t.Errorf("after %d entries: %v", entries, value)
		}
		giveBack(next)
	}
}

func TestResults_AreThoseOfWhatIsReplacedByWith(t *testing.T) {
	set := house(`package main

limit := 3

over(n) if n > limit

several if { some n in [1, 2]; over(n) }

deny contains "without" if several
deny contains "with" if several with data.main.limit as 1
deny contains "with another input" if names == ["y"] with input.children as [{"kind": "y"}]
deny contains "after it" if { names == ["y"] with input.children as [{"kind": "y"}]; names == ["x"] }

names := [child.kind | some child in input.children]`)
	in := goodInput(set)
	in.Children = []map[string]any{{"kind": "x"}}
	check := New()
	for range 3 {
		found := check.Evaluate(context.Background(), in)
		if len(found.Deny) != 3 || len(found.Undecided) > 0 {
			t.Fatal(show(found))
		}
	}
}

// p[k] says something about p.q too: that both are there is an error, and not what p.q says.
func TestResults_AConstantThatOthersContradictIsUndecided(t *testing.T) {
	for _, text := range []string{
		`limits.a := 1
limits[kind] := 2 if { some kind in ["a"]; input.children }

deny contains "too many" if limits.a > 1`,
		`limits.a.b := 1
limits[kind].b := 2 if { some kind in ["a"]; input.children }

deny contains "too many" if limits.a.b > 1`,
	} {
		found := New().Evaluate(context.Background(), goodInput(house("package main\n\n"+text)))
		if len(found.Undecided) != 1 || len(found.Deny) > 0 {
			t.Errorf("%s\n%s", text, show(found))
		}
		compiler := ast.MustCompileModules(map[string]string{"a.rego": "package main\n\n" + text, "b.rego": "package other\n\nword := \"x\""})
		if keys := constantsOf(compiler).entries; len(keys) != 1 || keys[0].ref.String() != "data.other.word" {
			t.Errorf("%s\nknown before: %v", text, keys)
		}
	}
}
