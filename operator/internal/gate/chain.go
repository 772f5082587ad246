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
	// Promoted has the environment that images were found to come from, by image as written.
	Promoted map[string]string
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
	all := Findings{Undecided: append([]Finding(nil), in.Failures...)}
	for _, check := range c.checks {
		f := check.Evaluate(ctx, in)
		all.Deny = append(all.Deny, f.Deny...)
		all.Warn = append(all.Warn, f.Warn...)
		all.Undecided = append(all.Undecided, f.Undecided...)
		all.Images = append(all.Images, f.Images...)
		if f.Promoted != nil {
			all.Promoted = f.Promoted
		}
	}
	// What was refused before any check ran was not judged, and stays.
	all, covered := exempt(in, all)
	all.Deny = append(all.Deny, in.Refused...)
	return compose(in, all, covered)
}

// NoGate is the verdict over an object that no Gate matches. It denies: otherwise taking
// a label off a namespace would take everything in it out of the gate.
func NoGate(object ObjectRef) Verdict {
	in := &Input{Object: object, Gate: Config{Mode: Enforce}}
	return compose(in, Findings{Deny: []Finding{{
		Policy: policyGate, Severity: SeverityCritical, Object: object.String(), Path: "metadata.namespace",
		Message: fmt.Sprintf("no Gate matches this object in namespace %s", object.Namespace),
		Remedy:  "label the namespace so that a Gate's spec.match selects it, or create a Gate that does",
	}}}, nil)
}

// NotHere is the verdict over a Workload in the operator's own namespace. It denies whatever
// a Gate says: pods there can have the keys that sign and the rights of the operator, and
// whoever delivers Workloads and Gates through Git may merge, and not do that.
func NotHere(object ObjectRef) Verdict {
	in := &Input{Object: object, Gate: Config{Mode: Enforce}}
	return compose(in, Findings{Deny: []Finding{{
		Policy: policyGate, Severity: SeverityCritical, Object: object.String(), Path: "metadata.namespace",
		Message: fmt.Sprintf("namespace %s is the operator's own, with its keys: no Workload runs in it", object.Namespace),
		Remedy:  "put it into a namespace of its own",
	}}}, nil)
}

// CouldNotDecide is the verdict when not even the Gates could be read.
func CouldNotDecide(object ObjectRef, message, remedy string) Verdict {
	in := &Input{Object: object, Gate: Config{Mode: Enforce}}
	return compose(in, Findings{Undecided: []Finding{{
		Policy: policyGate, Object: object.String(), Message: message, Remedy: remedy,
	}}}, nil)
}

// policyGate is the policy of findings that come from no policy and no check.
const policyGate = "gate"

func compose(in *Input, f Findings, covered []Exempted) Verdict {
	v := Verdict{
		Outcome:      outcome(in.Gate.Mode, f),
		Gate:         text(in.Gate.Name),
		Object:       cleanRef(in.Object),
		PolicyDigest: in.PolicyDigest,
		Images:       cleanImages(f.Images, f.Promoted),
		Warnings:     clean(f.Warn, in.Secrets),
		Exemptions:   told(covered, in.Secrets, in.Object),
	}
	undecided := clean(f.Undecided, in.Secrets)
	for i := range undecided {
		undecided[i].Severity = SeverityError
	}
	v.Violations = append(clean(f.Deny, in.Secrets), undecided...)
	v.normalise()
	v.Violations, v.Warnings = capped(v.Violations, v.Object), capped(v.Warnings, v.Object)
	return v
}

// outcome blocks under any mode but the two that say not to.
func outcome(mode Mode, f Findings) Outcome {
	decided := OutcomeAllow
	switch {
	case len(f.Deny) > 0:
		decided = OutcomeDeny
	case len(f.Undecided) > 0:
		decided = OutcomeError
	case len(f.Warn) > 0:
		decided = OutcomeWarn
	}
	switch {
	case mode == Audit:
		return OutcomeAllow
	case mode == Warn && decided.Blocks():
		return OutcomeWarn
	}
	return decided
}

// text, clean and those below make what came from users and policies safe to print
// wherever a verdict is shown.
func text(s string) string { return redact.Text(s, limits.MessageBytes) }

func clean(in []Finding, secrets *redact.Secrets) []Finding {
	out := make([]Finding, 0, len(in))
	for _, f := range in {
		out = append(out, Finding{
			Policy: text(f.Policy), Severity: text(f.Severity), Object: text(f.Object),
			Path: text(f.Path), Message: secrets.Text(f.Message, limits.MessageBytes), Remedy: secrets.Text(f.Remedy, limits.MessageBytes),
		})
	}
	return out
}

func cleanRef(r ObjectRef) ObjectRef {
	return ObjectRef{APIVersion: text(r.APIVersion), Kind: text(r.Kind), Name: text(r.Name), Namespace: text(r.Namespace)}
}

func cleanImages(in []ImageResult, promoted map[string]string) []ImageResult {
	out := make([]ImageResult, 0, len(in))
	for _, i := range in {
		i.PromotedFrom = text(promoted[i.Image])
		i.Image, i.Authority, i.Identity = text(i.Image), text(i.Authority), text(i.Identity)
		attestations := make([]string, 0, len(i.Attestations))
		for _, a := range i.Attestations {
			attestations = append(attestations, text(a))
		}
		i.Attestations = attestations
		out = append(out, i)
	}
	return out
}

// capped keeps the first findings and says in a last one how many there were besides.
func capped(f []Finding, judged ObjectRef) []Finding {
	if len(f) <= limits.Findings {
		return f
	}
	kept := limits.Findings - 1
	return append(f[:kept:kept], Finding{
		Policy: policyGate, Severity: f[kept].Severity, Object: judged.String(),
		Message: fmt.Sprintf("and %d more findings (limits.Findings)", len(f)-kept),
		Remedy:  "correct those above, and the others are shown",
	})
}
