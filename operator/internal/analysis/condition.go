package analysis

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// operators, those that begin with another before it.
var operators = []string{">=", "<=", "==", "!=", ">", "<"}

// Condition is a metric's failIf: it holds for values that are a failure.
type Condition struct {
	operator string
	bound    float64
}

// ParseFailIf reads a condition such as "> 0.01": an operator, at most one space, and a
// decimal number. The error says what is wrong with it.
func ParseFailIf(text string) (Condition, error) {
	for _, o := range operators {
		rest, ok := strings.CutPrefix(text, o)
		if !ok {
			continue
		}
		number := strings.TrimPrefix(rest, " ")
		if strings.Trim(number, "0123456789+-.eE") != "" {
			// ParseFloat takes NaN, Inf, hexadecimal numbers and underscores too.
			return Condition{}, fmt.Errorf("failIf %q: %q is not a decimal number", text, number)
		}
		bound, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return Condition{}, fmt.Errorf("failIf %q: %q is not a decimal number", text, number)
		}
		return Condition{operator: o, bound: bound}, nil
	}
	return Condition{}, fmt.Errorf("failIf %q: it has to begin with one of %s", text, strings.Join(operators, " "))
}

// Fails says whether the condition holds for a value. NaN is no value, and fails every
// condition.
func (c Condition) Fails(v float64) bool {
	switch c.operator {
	case ">":
		return !(v <= c.bound)
	case ">=":
		return !(v < c.bound)
	case "<":
		return !(v >= c.bound)
	case "<=":
		return !(v > c.bound)
	case "==":
		return v == c.bound || math.IsNaN(v)
	default:
		return v != c.bound
	}
}

// String is the condition as it is written in a spec.
func (c Condition) String() string { return c.operator + " " + format(c.bound) }

func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
