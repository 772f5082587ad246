package policy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// OPA's functions do not bound what they make: concat of a long string with itself,
// forty times over, is a terabyte. Those that make text or collections are therefore
// called through a function of our own that charges the meter, under a name that no
// policy can write. Calls are renamed after compilation, so that types, messages and
// everything else of the compiler stay OPA's.
const meteredPrefix = "metered "

var (
	errTooLarge   = errors.New("makes more than limits.PolicyBuiltinBytes")
	errTooDeep    = fmt.Errorf("makes a value that nests more than %d deep (limits.PolicyNesting)", limits.PolicyNesting)
	errLongNumber = fmt.Errorf("a number has more than %d digits", maxDigits)
)

const (
	// maxDigits bounds numbers, written out: arithmetic on longer ones is slow enough to
	// hold up a decision within one call that cannot be interrupted.
	maxDigits = 1024
	// elementBytes is what an element of a collection is charged: two pointers.
	elementBytes = 16
	// numberBytes is what a number that is made is charged: a term with its text.
	numberBytes = 64
	// verbBytes is how far sprintf pads at most for a width that is an argument.
	verbBytes = 1_000_000
)

// estimate says how many bytes a call will make, before it is made.
type estimate func(operands []*ast.Term) (int, error)

// metered are the functions that are charged, with the estimate for those whose output
// may be much larger than what goes in. The others are charged for what they made.
var metered = map[string]estimate{
	"and": nil, "array.concat": collections, "array.flatten": nil, "array.reverse": nil, "array.slice": nil,
	"base64.decode": nil, "base64.encode": nil, "base64url.decode": nil, "base64url.encode": nil,
	"base64url.encode_no_pad": nil, "concat": joined, "glob.quote_meta": quoted, "graph.reachable": nil,
	"hex.decode": nil, "hex.encode": nil, "indexof_n": places,
	"internal.template_string": joined, "intersection": nil, "json.filter": alongPaths, "json.marshal": written,
	"json.marshal_with_options": written, "json.patch": patched, "json.remove": alongPaths,
	"json.unmarshal": nil, "lower": nil, "numbers.range": numberRange, "numbers.range_step": numberRange,
	"object.filter": nil, "object.keys": nil, "object.remove": nil, "object.union": united,
	"object.union_n": unitedAll, "or": collections, "regex.find_all_string_submatch_n": nil,
	"regex.find_n": nil, "regex.replace": substituted, "regex.split": nil, "replace": replaced,
	"set_diff": nil, "sort": nil, "split": nil, "sprintf": formatted, "strings.replace_n": replacedEach,
	"strings.reverse": nil, "strings.split_n": nil, "substring": taken, "union": collections, "upper": nil,
	"uri.parse":       nil,
	"urlquery.decode": nil, "urlquery.decode_object": nil, "urlquery.encode": nil,
	"urlquery.encode_object": nil, "yaml.marshal": written, "yaml.unmarshal": nil,
	// Arithmetic, for the length of numbers.
	"abs": digits, "ceil": digits, "div": digits, "floor": digits, "format_int": digits, "minus": digits,
	"mul": digits, "plus": digits, "product": digits, "rem": digits, "round": digits, "sum": digits,
	"bits.and": digits, "bits.negate": digits, "bits.or": digits, "bits.rsh": digits, "bits.xor": digits,
}

// meterCalls renames the calls of metered functions in compiled modules.
func meterCalls(compiler *ast.Compiler) {
	for _, module := range compiler.Modules {
		ast.WalkTerms(module, func(term *ast.Term) bool {
			ref, ok := term.Value.(ast.Ref)
			if !ok || ref[0].Equal(ast.DefaultRootDocument) || ref[0].Equal(ast.InputRootDocument) {
				return false
			}
			if _, ok := metered[ref.String()]; ok {
				term.Value = ast.Ref{ast.VarTerm(meteredPrefix + ref.String())}
			}
			return false
		})
	}
}

// meteredFunctions are the query options that define what meterCalls refers to.
var meteredFunctions = sync.OnceValue(func() []func(*rego.Rego) {
	options := make([]func(*rego.Rego), 0, len(metered)+5)
	options = append(options, rego.FunctionDyn(&rego.Function{Name: madeName, Decl: types.NewFunction(types.Args(types.N), types.B)}, made))
	for _, name := range sortedKeys(metered) {
		declared := &rego.Function{Name: meteredPrefix + name, Decl: ast.BuiltinMap[name].Decl}
		options = append(options, rego.FunctionDyn(declared, charged(name, metered[name])))
	}
	return options[:len(options):len(options)]
})

func charged(name string, before estimate) rego.BuiltinDyn {
	call, arity := topdown.GetBuiltin(name), ast.BuiltinMap[name].Decl.Arity()
	return func(bctx rego.BuiltinContext, operands []*ast.Term) (*ast.Term, error) {
		m, ok := bctx.Cancel.(*meter)
		if !ok {
			return nil, errors.New("evaluated without a meter")
		}
		if before != nil {
			// What follows the arguments is the variable that takes the result.
			bytes, err := before(operands[:arity])
			if err == nil {
				err = m.charge(bytes)
			}
			if err != nil {
				return nil, refusal(name, bctx, err)
			}
		}
		var result *ast.Term
		if err := call(bctx, operands, func(t *ast.Term) error { result = t; return nil }); err != nil {
			return nil, err
		}
		if before == nil && result != nil {
			bytes, err := madeBy(name, result.Value)
			if err == nil {
				err = m.charge(bytes)
			}
			if err != nil {
				return nil, refusal(name, bctx, err)
			}
		}
		return result, nil
	}
}

// madeName is what meterValues has called: no policy can write it.
const madeName = meteredPrefix + "value"

// made charges a value of as many parts as its operand says.
func made(bctx rego.BuiltinContext, operands []*ast.Term) (*ast.Term, error) {
	m, ok := bctx.Cancel.(*meter)
	if !ok {
		return nil, errors.New("evaluated without a meter")
	}
	parts, err := builtins.IntOperand(operands[0].Value, 1)
	if err == nil {
		err = m.charge(product(parts, elementBytes))
	}
	if err != nil {
		return nil, refusal("a value of many parts", bctx, err)
	}
	return ast.InternedTerm(true), nil
}

// refusal has the form of the errors that OPA's functions give.
func refusal(name string, bctx rego.BuiltinContext, err error) error {
	return &topdown.Error{Code: topdown.BuiltinErr, Message: name + ": " + err.Error(), Location: bctx.Location}
}

// shallow is the size of a value without what its elements share with others.
func shallow(v ast.Value) int {
	switch v := v.(type) {
	case ast.String:
		return len(v)
	case ast.Number:
		return len(v)
	case interface{ Len() int }:
		return v.Len() * elementBytes
	}
	return elementBytes
}

// collections: all elements of the operands, and of operands inside a list of them.
func collections(operands []*ast.Term) (int, error) {
	total := 0
	for _, operand := range operands {
		total += shallow(operand.Value)
		each(operand.Value, func(t *ast.Term) { total += shallow(t.Value) })
	}
	return total, nil
}

func each(v ast.Value, visit func(*ast.Term)) {
	switch v := v.(type) {
	case *ast.Array:
		v.Foreach(visit)
	case ast.Set:
		v.Foreach(visit)
	case ast.Object:
		v.Foreach(func(_, value *ast.Term) { visit(value) })
	}
}

// joined: concat(delimiter, list) and string templates.
func joined(operands []*ast.Term) (int, error) {
	last := operands[len(operands)-1].Value
	total, err := writtenSize(last)
	if len(operands) == 2 {
		if n, ok := last.(interface{ Len() int }); ok {
			total = sum(total, product(n.Len(), shallow(operands[0].Value)))
		}
	}
	return total, err
}

// written: the operand as JSON or YAML. A value whose parts share memory may be
// exponentially larger when it is written out.
func written(operands []*ast.Term) (int, error) { return writtenSize(operands[0].Value) }

func writtenSize(v ast.Value) (int, error) {
	size := 0
	err := addWritten(v, &size)
	return size, err
}

// addWritten stops as soon as the size is too large in any case: walking all of a value
// with shared parts could take for ever.
func addWritten(v ast.Value, size *int) error {
	if *size += shallow(v); *size > limits.PolicyBuiltinBytes {
		return errTooLarge
	}
	var err error
	visit := func(t *ast.Term) {
		if err == nil {
			err = addWritten(t.Value, size)
		}
	}
	switch v := v.(type) {
	case ast.Number:
		return shortNumber(v)
	case ast.Object:
		v.Foreach(func(key, value *ast.Term) { visit(key); visit(value) })
	default:
		each(v, visit)
	}
	return err
}

// formatted: sprintf, whose verbs may pad.
func formatted(operands []*ast.Term) (int, error) {
	size, err := writtenSize(operands[1].Value)
	if err != nil {
		return 0, err
	}
	format, _ := operands[0].Value.(ast.String)
	size = sum(size, len(format))
	for _, verb := range strings.Split(string(format), "%")[1:] {
		size = sum(size, padding(verb))
		// %[1]s writes the same operand again and again.
		if strings.HasPrefix(strings.TrimLeft(verb, "+-# 0123456789.*"), "[") {
			again, err := writtenSize(operands[1].Value)
			if err != nil {
				return 0, err
			}
			size = sum(size, again)
		}
	}
	return size, nil
}

// padding is what the width and precision at the start of a verb may add.
func padding(verb string) int {
	total, number := 0, 0
	for _, c := range verb {
		switch {
		case c >= '0' && c <= '9':
			number = min(number*10+int(c-'0'), verbBytes)
		case c == '*':
			total = sum(total, verbBytes)
		case strings.ContainsRune("+-# .[]", c):
			total, number = sum(total, number), 0
		default:
			return sum(total, number)
		}
	}
	return sum(total, number)
}

// replaced: replace(text, old, new).
func replaced(operands []*ast.Term) (int, error) {
	text, ok1 := operands[0].Value.(ast.String)
	old, ok2 := operands[1].Value.(ast.String)
	if !ok1 || !ok2 {
		return 0, nil // the call itself reports the type
	}
	return sum(len(text), product(strings.Count(string(text), string(old)), shallow(operands[2].Value))), nil
}

// replacedEach: strings.replace_n(patterns, text), at worst the longest at every byte.
func replacedEach(operands []*ast.Term) (int, error) {
	longest := 0
	each(operands[0].Value, func(t *ast.Term) { longest = max(longest, shallow(t.Value)) })
	return product(shallow(operands[1].Value)+1, longest+1), nil
}

// substituted: regex.replace(text, pattern, value), where value may repeat the match.
func substituted(operands []*ast.Term) (int, error) {
	return product(shallow(operands[0].Value)+1, shallow(operands[2].Value)+1), nil
}

// numberRange: every number from the first operand to the second.
func numberRange(operands []*ast.Term) (int, error) {
	if _, err := digits(operands); err != nil {
		return 0, err
	}
	from, err := builtins.IntOperand(operands[0].Value, 1)
	if err != nil {
		return 0, err
	}
	to, err := builtins.IntOperand(operands[1].Value, 2)
	if err != nil {
		return 0, err
	}
	return int(min(math.Abs(float64(to)-float64(from))*numberBytes, math.MaxInt32)), nil
}

// digits refuses numbers that are too long, and charges those that are not.
func digits(operands []*ast.Term) (int, error) {
	total := 0
	var err error
	visit := func(t *ast.Term) {
		if number, ok := t.Value.(ast.Number); ok && err == nil {
			err = shortNumber(number)
			total += len(number)
		}
	}
	for _, operand := range operands {
		visit(operand)
		each(operand.Value, visit)
	}
	return total, err
}

// shortNumber refuses numbers of many digits, be they written out or by an exponent.
func shortNumber(n ast.Number) error {
	if len(n) > maxDigits {
		return errLongNumber
	}
	i := strings.IndexAny(string(n), "eE")
	if i < 0 {
		return nil
	}
	exponent, err := strconv.Atoi(string(n[i+1:]))
	if err != nil || exponent > maxDigits || exponent < -maxDigits {
		return errLongNumber
	}
	return nil
}

// sum and product stay at the largest value instead of wrapping around.
func sum(a, b int) int { return min(a+b, math.MaxInt32) }

func product(a, b int) int {
	if a != 0 && b > math.MaxInt32/a {
		return math.MaxInt32
	}
	return a * b
}
