package policy

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// madeBy is what a function made that is charged afterwards. Parsers make all of a value,
// and not its top alone.
func madeBy(name string, v ast.Value) (int, error) {
	switch name {
	case "json.unmarshal", "yaml.unmarshal", "uri.parse":
	default:
		return shallow(v), nil
	}
	size := 0
	err := addParsed(v, 1, &size)
	return size, err
}

// addParsed also refuses values that nest deeper than those that are written out in Rego may:
// walk makes a path to each part of a value, as long as that part is deep.
func addParsed(v ast.Value, depth int, size *int) error {
	if depth > limits.PolicyNesting {
		return errTooDeep
	}
	if *size += shallow(v); *size > limits.PolicyBuiltinBytes {
		return errTooLarge
	}
	var err error
	each(v, func(t *ast.Term) {
		if err == nil {
			err = addParsed(t.Value, depth+1, size)
		}
	})
	return err
}

// quoted: glob.quote_meta(text), at worst an escape for each byte.
func quoted(operands []*ast.Term) (int, error) { return product(2, shallow(operands[0].Value)), nil }

// taken: substring(text, offset, length), which shares ASCII and copies all other text.
func taken(operands []*ast.Term) (int, error) {
	text, _ := operands[0].Value.(ast.String)
	if strings.IndexFunc(string(text), func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return 0, nil
	}
	return len(text), nil
}

// places: indexof_n(text, search), a number for each, also where they overlap.
func places(operands []*ast.Term) (int, error) {
	text, _ := operands[0].Value.(ast.String)
	search, _ := operands[1].Value.(ast.String)
	if search == "" {
		return 0, nil // the call itself reports it
	}
	found, rest := 0, string(text)
	for {
		i := strings.Index(rest, string(search))
		if i < 0 {
			return product(found, numberBytes), nil
		}
		found, rest = found+1, rest[i+1:]
	}
}

// united: object.union(a, b), which makes anew what both have under the same keys, however
// deep, and shares the rest.
func united(operands []*ast.Term) (int, error) {
	size, err := collections(operands)
	if err == nil {
		err = addUnited(operands[0], operands[1], &size)
	}
	return size, err
}

// addUnited stops as soon as the size is too large in any case, as addWritten does.
func addUnited(a, b *ast.Term, size *int) error {
	left, ok1 := a.Value.(ast.Object)
	right, ok2 := b.Value.(ast.Object)
	if !ok1 || !ok2 {
		return nil
	}
	if *size += shallow(left) + shallow(right); *size > limits.PolicyBuiltinBytes {
		return errTooLarge
	}
	var err error
	left.Foreach(func(key, value *ast.Term) {
		if other := right.Get(key); other != nil && err == nil {
			err = addUnited(value, other, size)
		}
	})
	return err
}

// unitedAll: object.union_n(list), which copies all objects in it, and those in them.
func unitedAll(operands []*ast.Term) (int, error) {
	size, err := collections(operands)
	each(operands[0].Value, func(t *ast.Term) {
		if err == nil {
			err = addObjects(t, &size)
		}
	})
	return size, err
}

func addObjects(t *ast.Term, size *int) error {
	object, ok := t.Value.(ast.Object)
	if !ok {
		return nil
	}
	if *size += shallow(object); *size > limits.PolicyBuiltinBytes {
		return errTooLarge
	}
	var err error
	object.Foreach(func(_, value *ast.Term) {
		if err == nil {
			err = addObjects(value, size)
		}
	})
	return err
}

// alongPaths: json.filter(value, paths) and json.remove(value, paths), which make anew what
// lies on the way to what is taken, and share the rest.
func alongPaths(operands []*ast.Term) (int, error) {
	c := copied{}
	each(operands[1].Value, func(path *ast.Term) { c.along(operands[0], path) })
	return c.size, nil
}

// patched: json.patch(value, patches), which makes anew what lies on the way to what is
// changed. A later patch may change what an earlier one put in.
func patched(operands []*ast.Term) (int, error) {
	size, err := collections(operands)
	c := copied{}
	each(operands[1].Value, func(patch *ast.Term) {
		for _, field := range []string{"path", "from"} {
			if path := patch.Get(ast.InternedTerm(field)); path != nil {
				c.along(operands[0], path)
			}
		}
		if value := patch.Get(ast.InternedTerm("value")); value != nil {
			c.all(value)
		}
	})
	return sum(size, c.size), err
}

// copied counts collections that are made anew, each once.
type copied struct {
	size int
	seen map[ast.Value]bool
}

// take says whether a value is a collection that was not counted before.
func (c *copied) take(v ast.Value) bool {
	switch v.(type) {
	case *ast.Array, ast.Object, ast.Set:
	default:
		return false
	}
	if c.seen[v] {
		return false
	}
	if c.seen == nil {
		c.seen = map[ast.Value]bool{}
	}
	c.seen[v] = true
	c.size = sum(c.size, shallow(v))
	return true
}

// along counts the collections on a path, which is a text with slashes or a list.
func (c *copied) along(from, path *ast.Term) {
	step := func(key *ast.Term) {
		if from != nil {
			c.take(from.Value)
			c.size = sum(c.size, elementBytes)
			from = within(from, key)
		}
	}
	switch path := path.Value.(type) {
	case ast.String:
		for key := range strings.SplitSeq(strings.TrimLeft(string(path), "/"), "/") {
			step(ast.StringTerm(strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")))
		}
	case *ast.Array:
		path.Foreach(step)
	}
	if from != nil {
		c.take(from.Value)
	}
}

// all counts the collections in a value, those that are shared once.
func (c *copied) all(t *ast.Term) {
	if c.take(t.Value) {
		each(t.Value, c.all)
	}
}

// within is what a step of a path leads to; nil for nothing. Indexes of lists may be texts.
func within(t, key *ast.Term) *ast.Term {
	switch v := t.Value.(type) {
	case *ast.Array:
		text, ok := key.Value.(ast.String)
		if !ok {
			return v.Get(key)
		}
		if i, err := strconv.Atoi(string(text)); err == nil && i >= 0 && i < v.Len() {
			return v.Elem(i)
		}
		return nil
	case ast.Object:
		return v.Get(key)
	case ast.Set:
		if v.Contains(key) {
			return key
		}
	}
	return nil
}
