package policy

import (
	"context"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

// flattened compiles modules by their names in files, with packages of one word.
func flattened(t *testing.T, texts map[string]string) (*ast.Compiler, error) {
	t.Helper()
	modules := map[string]*ast.Module{}
	for name, text := range texts {
		module, err := ast.ParseModuleWithOpts(name, text, ast.ParserOptions{RegoVersion: ast.RegoV1})
		if err != nil {
			t.Fatal(err)
		}
		modules[name] = module
	}
	if err := flatten(modules); err != nil {
		return nil, err
	}
	compiler := ast.NewCompiler()
	if compiler.Compile(modules); compiler.Failed() {
		return nil, compiler.Errors
	}
	return compiler, nil
}

func TestFlatten_FindsWhatIsReferredToInEveryWay(t *testing.T) {
	compiler, err := flattened(t, map[string]string{
		"lib.rego":  "package a.lib\n\nwords := [\"x\"]\n\ntwice(x) := [x, x]\n",
		"sub.rego":  "package a.lib.sub\n\nword := \"y\"\n",
		"rule.rego": "package a.rule\n\nimport data.a.lib\nimport data.a.lib.sub as other\nimport data.a.lib.words\n\nall := [lib.words, words, data.a.lib.words[0], data.a.lib.twice(1), other.word, data.a.lib.sub.word, input.data]\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := rego.New(rego.Compiler(compiler), rego.Query(`data["a.rule"].all`), rego.Input(map[string]any{"data": "z"})).Eval(context.Background())
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	want, err := ast.InterfaceToValue([]any{[]any{"x"}, []any{"x"}, "x", []any{1, 1}, "y", "y", "z"})
	if err != nil {
		t.Fatal(err)
	}
	if value := ast.MustInterfaceToValue(got[0].Expressions[0].Value); ast.Compare(value, want) != 0 {
		t.Errorf("%v, want %v", value, want)
	}
}

// What is not there would be undefined, and a rule that asks for it would find nothing.
func TestFlatten_RefusesWhatIsInNoPackage(t *testing.T) {
	for _, body := range []string{"data.a.lbi.words", "data.a", "data", "data[x]"} {
		_, err := flattened(t, map[string]string{
			"lib.rego": "package a.lib\n\nwords := [\"x\"]\n", "rule.rego": "package a.rule\n\nx := \"a\"\n\nall := " + body + "\n",
		})
		if err == nil || !strings.Contains(err.Error(), "rule.rego") {
			t.Errorf("%s: %v", body, err)
		}
	}
}
