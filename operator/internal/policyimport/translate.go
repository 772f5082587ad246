package policyimport

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"
)

// prefix is before every name of ours, and before those of the template that a Gate would
// take for rules of its own: they are for the input that only Gatekeeper gives.
const prefix = "gatekeeper_"

// evaluated are the names that a Gate evaluates.
var evaluated = regexp.MustCompile(`^(deny|violation|warn)(_[A-Za-z0-9_]+)?$`)

// reviewed are the fields of input.review that every gate knows.
var reviewed = map[string]bool{"object": true, "kind": true, "name": true, "namespace": true, "operation": true}

// replacements are functions that Rego v1 has no longer: under another name, or written
// out where the value is Rego.
var replacements = map[string]string{
	"re_match": "regex.match",
	"any":      prefix + "any",
	"all":      prefix + "all",
}

// translate makes modules of a Gate out of a template's.
func translate(name string, from source) (Policy, error) {
	p := Policy{Name: name, Modules: map[string]string{}}
	files := []string{name + ".rego"}
	texts := append([]string{from.rego}, from.libs...)
	modules := make([]*ast.Module, 0, len(texts))
	for i, text := range texts {
		if i > 0 {
			files = append(files, fmt.Sprintf("%s_lib_%d.rego", name, i))
		}
		module, err := parse(files[i], text, from.v1)
		if err != nil {
			return p, err
		}
		modules = append(modules, module)
	}
	for _, module := range modules {
		reads, err := checkReferences(module, modules)
		if err != nil {
			return p, err
		}
		p.Parameters = p.Parameters || reads
	}
	if !defines(modules[0], "violation") {
		return p, fmt.Errorf("%s: the template has no violation rule, so that it would allow everything", files[0])
	}
	rename(modules)
	for i, module := range modules {
		text, err := write(module)
		if err != nil {
			return p, fmt.Errorf("%s: %w", files[i], err)
		}
		if i == 0 {
			text += shim(name, p.Parameters)
		}
		p.Modules[files[i]] = text
	}
	return p, nil
}

func parse(file, text string, v1 bool) (*ast.Module, error) {
	version := ast.RegoV0
	if v1 {
		version = ast.RegoV1
	}
	module, err := ast.ParseModuleWithOpts(file, text, ast.ParserOptions{RegoVersion: version, ProcessAnnotation: true})
	if err != nil {
		return nil, err
	}
	if module == nil {
		return nil, fmt.Errorf("%s: the module is empty", file)
	}
	return module, nil
}

// checkReferences refuses what is not there under a Gate, and says whether parameters are
// read.
func checkReferences(module *ast.Module, all []*ast.Module) (parameters bool, err error) {
	refuse := func(ref ast.Ref, why string) {
		if err == nil {
			err = fmt.Errorf("%s:%d: the template reads %s: %s", module.Package.Location.File, ref[0].Location.Row, ref, why)
		}
	}
	// The reference of the package itself, and of imports of the language, are none.
	visit := func(ref ast.Ref) bool {
		switch {
		case ref.HasPrefix(ast.InputRootRef) && len(ref) > 1:
			field, _ := ref[1].Value.(ast.String)
			parameters = parameters || field == "parameters"
			if field != "review" && field != "parameters" {
				refuse(ref, "there are input.review and input.parameters")
			}
			if field == "review" && len(ref) > 2 {
				if inner, ok := ref[2].Value.(ast.String); !ok || !reviewed[string(inner)] {
					refuse(ref, "the gates know of a review only "+strings.Join(sorted(reviewed), ", ")+
						", since a pull request has no old object and nobody who asks")
				}
			}
		case ref.HasPrefix(ast.DefaultRootRef) && !within(ref, all):
			refuse(ref, "a Gate sees one object, and none of the cluster's inventory")
		}
		return false
	}
	for _, i := range module.Imports {
		if ref, ok := i.Path.Value.(ast.Ref); ok {
			visit(ref)
		}
	}
	for _, rule := range module.Rules {
		ast.WalkRefs(rule, visit)
	}
	return parameters, err
}

func within(ref ast.Ref, all []*ast.Module) bool {
	for _, module := range all {
		if ref.HasPrefix(module.Package.Path) {
			return true
		}
	}
	return false
}

func defines(module *ast.Module, name string) bool {
	for _, rule := range module.Rules {
		if nameOf(rule) == name {
			return true
		}
	}
	return false
}

func nameOf(rule *ast.Rule) string {
	name, _ := rule.Head.Ref()[0].Value.(ast.Var)
	return string(name)
}

// rename puts the prefix before the rules that a Gate would evaluate, wherever they are
// named, and replaces functions that are no more.
func rename(modules []*ast.Module) {
	for _, module := range modules {
		names := map[string]bool{}
		for _, rule := range module.Rules {
			if name := nameOf(rule); evaluated.MatchString(name) {
				names[name] = true
			}
		}
		for _, rule := range module.Rules {
			renameHeads(rule, names)
			ast.WalkTerms(rule, func(term *ast.Term) bool {
				if name, ok := term.Value.(ast.Var); ok && names[string(name)] {
					term.Value = ast.Var(prefix + string(name))
				}
				return false
			})
		}
		for _, other := range modules {
			renameReferences(other, module.Package.Path, names)
		}
		replaceFunctions(module)
	}
}

func renameHeads(rule *ast.Rule, names map[string]bool) {
	for r := rule; r != nil; r = r.Else {
		if name := nameOf(r); names[name] {
			r.Head.Name = ast.Var(prefix + name)
			if len(r.Head.Reference) > 0 {
				r.Head.Reference[0] = &ast.Term{Value: ast.Var(prefix + name), Location: r.Location}
			}
		}
	}
}

// renameReferences renames data.<package>.<name> in another module.
func renameReferences(in *ast.Module, pkg ast.Ref, names map[string]bool) {
	visit := func(ref ast.Ref) bool {
		if len(ref) > len(pkg) && ref.HasPrefix(pkg) {
			if name, ok := ref[len(pkg)].Value.(ast.String); ok && names[string(name)] {
				ref[len(pkg)] = &ast.Term{Value: ast.String(prefix) + name, Location: ref[0].Location}
			}
		}
		return false
	}
	for _, i := range in.Imports {
		if ref, ok := i.Path.Value.(ast.Ref); ok {
			if alias := last(ref); i.Alias == "" && names[alias] && len(ref) == len(pkg)+1 {
				i.Alias = ast.Var(alias)
			}
			visit(ref)
		}
	}
	for _, rule := range in.Rules {
		ast.WalkRefs(rule, visit)
	}
}

func last(ref ast.Ref) string {
	name, _ := ref[len(ref)-1].Value.(ast.String)
	return string(name)
}

func replaceFunctions(module *ast.Module) {
	replace := func(operator *ast.Term) {
		ref, ok := operator.Value.(ast.Ref)
		if !ok {
			return
		}
		if other, ok := replacements[ref.String()]; ok {
			words := strings.Split(other, ".")
			ref = ast.Ref{ast.VarTerm(words[0])}
			for _, word := range words[1:] {
				ref = append(ref, ast.StringTerm(word))
			}
			for _, term := range ref {
				term.Location = operator.Location // the formatter lays out by these
			}
			operator.Value = ref
		}
	}
	for _, rule := range module.Rules {
		ast.WalkExprs(rule, func(e *ast.Expr) bool {
			if e.IsCall() {
				if terms, ok := e.Terms.([]*ast.Term); ok {
					replace(terms[0])
				}
			}
			return false
		})
		ast.WalkTerms(rule, func(term *ast.Term) bool {
			if call, ok := term.Value.(ast.Call); ok {
				replace(call[0])
			}
			return false
		})
	}
}

// write is the module in Rego v1, with the functions that it uses of ours.
func write(module *ast.Module) (string, error) {
	text, err := format.AstWithOpts(module, format.Opts{RegoVersion: ast.RegoV1, DropRedundantDirectiveImports: true})
	if err != nil {
		return "", err
	}
	out := string(text)
	for _, name := range []string{"all", "any"} {
		if strings.Contains(out, prefix+name+"(") {
			out += functions[name]
		}
	}
	return out, nil
}

// functions are those of Rego v0 that v1 has not.
var functions = map[string]string{
	"all": `
default gatekeeper_all(_) := false

gatekeeper_all(values) if {
	every value in values {
		value == true
	}
}
`,
	"any": `
default gatekeeper_any(_) := false

gatekeeper_any(values) if {
	some value in values
	value == true
}
`,
}
