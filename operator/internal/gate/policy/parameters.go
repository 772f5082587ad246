package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/policies"
)

// Problem is one thing that is wrong with the parameters of a Gate.
type Problem struct {
	// Path below spec.parameters, such as reliability.minReplicas.
	Path string
	// Message says what is wrong and what to write instead.
	Message string
}

// parametersFile is the JSON schema of a group's parameters, beside its rules.
const parametersFile = "parameters.json"

// CheckParameters says what is wrong with a Gate's parameters, in stable order. groups are
// the builtin groups that the Gate names, parameters decoded JSON. Parameters of other
// names are for policies that are not builtin, of which we know nothing; with others false
// there are none.
//
// A parameter that nobody reads is as good as a rule that is switched off, and nobody
// would see it: a misspelt name is an error therefore.
func CheckParameters(groups []string, others bool, parameters map[string]any) []Problem {
	var found []Problem
	for _, name := range sortedKeys(parameters) {
		_, builtin := Builtin(name)
		switch {
		case slices.Contains(groups, name) && builtin:
			found = append(found, parameterSchemas()[name].check(name, parameters[name])...)
		case !others && builtin:
			found = append(found, Problem{name, fmt.Sprintf(
				"the Gate does not use group %s: add {builtin: %s} to spec.policies, or remove its parameters", name, name)})
		case !others:
			found = append(found, Problem{name, noGroup(name, groups)})
		default:
			if near, ok := lookalike(name, groups); ok {
				found = append(found, Problem{name, fmt.Sprintf(
					"this is almost the name of group %s: write %s, or give parameters of your own policies a name that nobody mistakes for it", near, near)})
			}
		}
	}
	return found
}

func noGroup(name string, groups []string) string {
	message := fmt.Sprintf("the Gate uses no policy group %q", name)
	if near, ok := nearest(name, groups); ok {
		return message + ": write " + near
	}
	if len(groups) == 0 {
		return message + ": remove it, or add what reads it to spec.policies"
	}
	return message + ": it uses " + strings.Join(groups, ", ")
}

// parameterSchemas are those of all groups; a group without a file takes no parameters. It
// panics only when the binary was built with a schema that it cannot read.
var parameterSchemas = sync.OnceValue(func() map[string]*parameterSchema {
	schemas := map[string]*parameterSchema{}
	for _, group := range BuiltinGroups() {
		schema := &parameterSchema{Type: "object"}
		text, err := fs.ReadFile(policies.Files, path.Join(group, parametersFile))
		if err == nil {
			schema, err = readSchema(text)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			panic(fmt.Sprintf("policy: %s of group %s: %v", parametersFile, group, err))
		}
		schemas[group] = schema
	}
	return schemas
})

// readSchema refuses keywords that we do not know: one that is passed over would not hold.
func readSchema(text []byte) (*parameterSchema, error) {
	schema := &parameterSchema{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(schema); err != nil {
		return nil, err
	}
	return schema, schema.validate()
}

// nearest is the name that someone most likely meant, if there is one: at most a third of
// its letters are other ones.
func nearest(word string, names []string) (string, bool) {
	best, least := "", len(word)
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best, best != "" && least <= max(1, len(best)/3)
}

// lookalike is stricter than nearest: the name may be meant as it stands.
func lookalike(word string, names []string) (string, bool) {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	for _, name := range names {
		if d := distance(plain(word), plain(name)); d == 0 || d <= 2 && len(name) >= 6 {
			return name, true
		}
	}
	return "", false
}

// distance is how many letters have to be put in, taken out or changed to make b of a. The
// names of parameters are short, so that the table of letters by letters is too.
func distance(a, b string) int {
	if len(a) > longestName || len(b) > longestName {
		return longestName
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// longestName is for distance; no parameter has a name that is half as long.
const longestName = 64
