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
		path := oneWord(m.Package.Path)
		_, err := ast.TransformRefs(m, func(ref ast.Ref) (ast.Value, error) {
			if !ref[0].Equal(ast.DefaultRootDocument) {
				return ref, nil
			}
			for n := len(ref); n > 1; n-- {
				if packages[ref[:n].String()] {
					return append(oneWord(ref[:n]), ref[n:]...), nil
				}
			}
			return nil, fmt.Errorf("%s: %s is in no package of the library", name, ref)
		})
		if err != nil {
			return err
		}
		m.Package.Path = path
	}
	return nil
}

// oneWord is a package's path with all that follows data as one word.
func oneWord(path ast.Ref) ast.Ref {
	return ast.Ref{ast.DefaultRootDocument, ast.StringTerm(strings.Join(wordsOf(path), "."))}
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
