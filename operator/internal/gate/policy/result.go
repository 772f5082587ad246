package policy

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// readResult turns what a rule gave into findings. A value of another shape is an
// error, whatever the others are: passing over it could turn a denial into silence.
func readResult(r *rule, in *gate.Input, object string, value ast.Value) ([]gate.Finding, error) {
	set, ok := value.(ast.Set)
	if !ok {
		return nil, fmt.Errorf("it gives a value of type %s in place of a set", ast.ValueName(value))
	}
	found := make([]gate.Finding, 0, min(set.Len(), limits.Findings))
	for i, term := range set.Slice() {
		if i == limits.Findings {
			found = append(found, r.finding(in, object, fmt.Sprintf("and %d more findings (limits.Findings)", set.Len()-i)))
			break
		}
		f, err := readFinding(r, in, object, term.Value)
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	return found, nil
}

func readFinding(r *rule, in *gate.Input, object string, value ast.Value) (gate.Finding, error) {
	switch value := value.(type) {
	case ast.String:
		return r.finding(in, object, string(value)), nil
	case ast.Object:
		msg, ok, err := text(value, "msg")
		if err == nil && !ok {
			err = fmt.Errorf("it gives an object without msg")
		}
		if err != nil {
			return gate.Finding{}, err
		}
		f := r.finding(in, object, msg)
		for _, field := range []struct {
			key  string
			into *string
		}{{"object", &f.Object}, {"path", &f.Path}, {"remedy", &f.Remedy}} {
			given, ok, err := text(value, field.key)
			if err != nil {
				return gate.Finding{}, err
			}
			if ok {
				*field.into = in.Secrets.Text(given, limits.MessageBytes)
			}
		}
		return f, nil
	default:
		return gate.Finding{}, fmt.Errorf("it gives a value of type %s", ast.ValueName(value))
	}
}

// text reads one field, absent or text.
func text(object ast.Object, key string) (string, bool, error) {
	term := object.Get(termOf(key))
	if term == nil {
		return "", false, nil
	}
	value, ok := term.Value.(ast.String)
	if !ok {
		return "", false, fmt.Errorf("it gives an object whose %s is of type %s", key, ast.ValueName(term.Value))
	}
	return string(value), true, nil
}

// finding of the rule about the object that it was given. A denial without words still denies; the
// rule's title then has to do. A policy may print the values of variables: secrets are
// masked before the message is cut, or half of one could stand at the cut.
func (r *rule) finding(in *gate.Input, object, message string) gate.Finding {
	if message == "" {
		message = r.notes.title
	}
	if message == "" {
		message = "the policy gives no reason"
	}
	return gate.Finding{
		Policy: r.policy, Severity: r.notes.severity, Object: object,
		Message: in.Secrets.Text(message, limits.MessageBytes), Remedy: r.notes.remedy,
	}
}
