package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// ofStatements is the check behind Evaluate: one for the process, so that a policy over
// attestations is compiled once, whoever asks.
var ofStatements = sync.OnceValue(New)

const statementModule = "policy.rego"

func statementSet(module string) gate.PolicySet {
	return gate.PolicySet{Name: "attestation", Modules: map[string]string{statementModule: module}}
}

// CompileStatement says why a module cannot judge attestations: what Compile says, or
// that it has no rule that denies. Admission of a Gate calls it.
func CompileStatement(module string) error {
	if err := Compile(statementSet(module)); err != nil {
		return err
	}
	_, err := compiledStatement(context.Background(), module)
	return err
}

// Evaluate judges input, which is decoded JSON with numbers as json.Number, by one
// module, and returns what its deny and violation rules say, in stable order. Its warn
// rules are not asked. Bounds are those of Check. An error means that nothing was
// decided: the module does not compile, failed, or took more than package limits allows.
func Evaluate(ctx context.Context, module string, input any) (denies []string, err error) {
	check := ofStatements()
	ctx, cancel := context.WithTimeout(ctx, check.deadline)
	defer cancel()
	if _, err := compiledStatement(ctx, module); err != nil {
		return nil, err
	}
	value, err := ast.InterfaceToValue(input)
	if err != nil {
		return nil, fmt.Errorf("the statement cannot be given to a policy: %w", err)
	}
	u := unit{statementSet(module)}
	found := check.evaluateUnit(ctx, u, check.cache.entry(u), &documents{envelope: document{value: value}, statement: true}, &gate.Input{})
	if len(found.Undecided) > 0 {
		reasons := make([]string, 0, len(found.Undecided))
		for _, f := range found.Undecided {
			reasons = append(reasons, f.Message)
		}
		return nil, errors.New(strings.Join(reasons, "; "))
	}
	for _, f := range found.Deny {
		denies = append(denies, f.Message)
	}
	return denies, nil
}

// compiledStatement refuses a module that could only warn: nobody would see it, and it
// would accept everything.
func compiledStatement(ctx context.Context, module string) (*compiled, error) {
	source, err := ofStatements().cache.get(ctx, unit{statementSet(module)})
	if err != nil {
		return nil, fmt.Errorf("the policy does not compile: %w", err)
	}
	for _, r := range source.rules {
		if !r.warns {
			return source, nil
		}
	}
	return nil, fmt.Errorf("%s: the policy only warns, so that it would accept every attestation: write a rule such as %q",
		statementModule, "deny contains msg if { … }")
}
