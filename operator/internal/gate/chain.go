package gate

import (
	"context"
	"fmt"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Findings are what one Check found.
type Findings struct {
	// Deny findings say that the rules say no.
	Deny []Finding
	// Warn findings are told and do not block.
	Warn []Finding
	// Undecided findings say that the check could not decide.
	Undecided []Finding
	// Images that this check speaks for.
	Images []ImageResult
}

// Check is one kind of rule. It must be safe for concurrent use, must not change the
// input, and must give the same findings for the same input. The context bounds its
// time; a check that runs out of it reports that as Undecided.
type Check interface {
	Evaluate(ctx context.Context, in *Input) Findings
}

// Chain runs checks in order and makes a Verdict of what they found. Every check runs,
// whatever the others found: a user wants all reasons at once.
type Chain struct{ checks []Check }

// NewChain makes a chain.
func NewChain(checks ...Check) *Chain { return &Chain{checks: checks} }

// Decide judges one input.
func (c *Chain) Decide(ctx context.Context, in *Input) Verdict {
	all := Findings{Deny: append([]Finding(nil), in.Refused...), Undecided: append([]Finding(nil), in.Failures...)}
	for _, check := range c.checks {
		f := check.Evaluate(ctx, in)
		all.Deny = append(all.Deny, f.Deny...)
		all.Warn = append(all.Warn, f.Warn...)
		all.Undecided = append(all.Undecided, f.Undecided...)
		all.Images = append(all.Images, f.Images...)
	}
	return compose(in, all)
}

// NoGate is the verdict over an object that no Gate matches. It denies: otherwise taking
// a label off a namespace would take everything in it out of the gate.
func NoGate(object ObjectRef) Verdict {
	v := Verdict{
		Outcome: OutcomeDeny,
		Object:  object,
		Violations: []Finding{{
			Policy: "gate", Severity: SeverityCritical, Object: object.String(), Path: "metadata.namespace",
			Message: fmt.Sprintf("no Gate matches this object in namespace %s", object.Namespace),
			Remedy:  "label the namespace so that a Gate's spec.match selects it, or create a Gate that does",
		}},
	}
	v.normalise()
	return v
}

// CouldNotDecide is the verdict when not even the Gates could be read.
func CouldNotDecide(object ObjectRef, message, remedy string) Verdict {
	in := &Input{Object: object, Gate: Config{Mode: Enforce}}
	return compose(in, Findings{Undecided: []Finding{{
		Policy: "gate", Object: object.String(), Message: message, Remedy: remedy,
	}}})
}

func compose(in *Input, f Findings) Verdict {
	v := Verdict{
		Outcome:      OutcomeAllow,
		Gate:         in.Gate.Name,
		Object:       in.Object,
		PolicyDigest: in.PolicyDigest,
		Images:       f.Images,
		Warnings:     clean(f.Warn),
	}
	for i := range f.Undecided {
		f.Undecided[i].Severity = SeverityError
	}
	v.Violations = append(clean(f.Deny), clean(f.Undecided)...)
	switch {
	case len(f.Deny) > 0:
		v.Outcome = OutcomeDeny
	case len(f.Undecided) > 0:
		v.Outcome = OutcomeError
	case len(f.Warn) > 0:
		v.Outcome = OutcomeWarn
	}
	if v.Outcome.Blocks() {
		switch in.Gate.Mode {
		case Warn:
			v.Outcome = OutcomeWarn
		case Audit:
			v.Outcome = OutcomeAllow
		}
	}
	v.normalise()
	v.Violations, v.Warnings = capped(v.Violations), capped(v.Warnings)
	return v
}

// clean makes text that came from users and policies safe to print wherever a verdict
// is shown.
func clean(in []Finding) []Finding {
	out := make([]Finding, 0, len(in))
	for _, f := range in {
		f.Policy = redact.Text(f.Policy, limits.MessageBytes)
		f.Severity = redact.Text(f.Severity, limits.MessageBytes)
		f.Object = redact.Text(f.Object, limits.MessageBytes)
		f.Path = redact.Text(f.Path, limits.MessageBytes)
		f.Message = redact.Text(f.Message, limits.MessageBytes)
		f.Remedy = redact.Text(f.Remedy, limits.MessageBytes)
		out = append(out, f)
	}
	return out
}

func capped(f []Finding) []Finding {
	if len(f) <= limits.Findings {
		return f
	}
	more := len(f) - limits.Findings
	last := f[limits.Findings-1]
	last.Path, last.Remedy = "", ""
	last.Message = fmt.Sprintf("and %d more findings (limits.Findings)", more+1)
	return append(f[:limits.Findings-1:limits.Findings-1], last)
}
