package signature

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
)

// attested is one statement about the image, made by an authority that the rule names.
type attested struct {
	statement *statement
	// by authority.
	by         []string
	identities []string
	warnings   []warning
}

// attestation judges one demand. Which of several statements of the demanded type count:
//
//   - Of vulnerability scans the newest one decides, by the time that it gives itself
//     (scanFinishedOn, else scanStartedOn, in its metadata): a scan that finds something
//     must not be outvoted by an older one that did not. Where more than one may be the
//     newest, because their times are equal or not given, each of those has to pass.
//   - Of every other type one that passes is enough.
//
// A statement passes if it does not say of itself that it failed, and the demand's
// policy, if there is one, denies nothing. Only statements that an authority signed are
// looked at, and never as anything but the type that they say.
func (r *run) attestation(j *judgement, a gate.AttestationRule, held []*stored) {
	var ofType []*stored
	for _, s := range held {
		if s.statement != nil && s.statement.predicateType == a.PredicateType {
			ofType = append(ofType, s)
		}
	}
	found, t := r.attestedBy(j, a, ofType)
	if len(t.unknown) > 0 && (len(found) == 0 || isScan(a.PredicateType) && len(found) < len(ofType)) && len(ofType) > 0 {
		// What nobody accepted yet may be theirs.
		j.undecided = append(j.undecided, r.unusable(t.unknown))
		return
	}
	if len(found) == 0 {
		j.deny = append(j.deny, t.unattested(j, a, len(ofType)))
		return
	}
	if isScan(a.PredicateType) {
		r.newestPasses(j, a, found)
	} else {
		r.onePasses(j, a, found)
	}
}

// attestedBy asks the demand's authorities about statements. The tally holds what is
// needed to say who did not make one.
func (r *run) attestedBy(j *judgement, a gate.AttestationRule, ofType []*stored) ([]attested, tally) {
	var t tally
	byIndex := make([]attested, len(ofType))
	names := authorityNames(j.rule.Authorities)
	for i, authority := range j.rule.Authorities {
		if len(a.Authorities) > 0 && !slices.Contains(a.Authorities, names[i]) {
			continue
		}
		t.missing = append(t.missing, names[i])
		t.keyless, t.keyed = t.keyless || authority.Keyless != nil, t.keyed || authority.Keyless == nil
		o := r.ask(names[i], authority, ofType, j.digest)
		if o.unusable != nil {
			t.unknown = append(t.unknown, o.unusable.Error())
		}
		t.reasons = firstReasons(t.reasons, o.reasons...)
		for index, who := range o.accepted {
			at := &byIndex[index]
			at.statement = ofType[index].statement
			at.by = append(at.by, names[i])
			if who.identity != "" {
				at.identities = append(at.identities, who.identity)
			}
			for _, lack := range who.lacks {
				at.warnings = append(at.warnings, warning{authority: names[i], lacks: lack})
			}
		}
	}
	t.missing, t.unknown = sorted(t.missing), sorted(t.unknown)
	return slices.DeleteFunc(byIndex, func(at attested) bool { return at.statement == nil }), t
}

// unattested says that no authority made a statement of the type.
func (t tally) unattested(j *judgement, a gate.AttestationRule, held int) said {
	if len(t.missing) == 0 {
		return said{
			outcome: gate.ImageUntrusted,
			message: fmt.Sprintf("no authority of rule %s may make the attestation of type %s that it asks for", j.rule.Match, a.PredicateType),
			remedy:  "name authorities of the rule in attestations[].authorities",
		}
	}
	command := "cosign attest --type " + a.PredicateType + " --predicate predicate.json "
	if t.keyed || !t.keyless {
		command += "--key cosign.key "
	}
	s := said{
		outcome: gate.ImageUnsigned,
		message: fmt.Sprintf("image has no attestation of type %s that authority %s accepts", a.PredicateType, list(t.missing, "or")),
		remedy:  "attest it: " + command + j.image.Repository + "@" + j.digest.text,
	}
	if held > 0 {
		s.outcome = gate.ImageUntrusted
		s.remedy = fmt.Sprintf("the registry holds %s of this type that none of them accepts%s; %s", plural(held, "attestation"), because(t.reasons), s.remedy)
	}
	return s
}

func (r *run) onePasses(j *judgement, a gate.AttestationRule, found []attested) {
	var reasons, failures []string
	passed := false
	for _, at := range found {
		denied, err := r.objections(a, at.statement)
		switch {
		case err != nil:
			failures = append(failures, err.Error())
		case len(denied) > 0:
			reasons = append(reasons, denied...)
		default:
			j.pass(a, at)
			passed = true
		}
	}
	switch {
	case passed:
	case len(failures) > 0:
		j.undecided = append(j.undecided, undecidedPolicy(a, failures))
	default:
		j.deny = append(j.deny, objection(a, reasons))
	}
}

func (r *run) newestPasses(j *judgement, a gate.AttestationRule, found []attested) {
	var reasons, failures []string
	newest := newestScans(found)
	for _, at := range newest {
		denied, err := r.objections(a, at.statement)
		if err != nil {
			failures = append(failures, err.Error())
		}
		reasons = append(reasons, denied...)
	}
	switch {
	case len(reasons) > 0:
		j.deny = append(j.deny, objection(a, reasons))
	case len(failures) > 0:
		j.undecided = append(j.undecided, undecidedPolicy(a, failures))
	default:
		for _, at := range newest {
			j.pass(a, at)
		}
	}
}

func (j *judgement) pass(a gate.AttestationRule, at attested) {
	j.attestations = append(j.attestations, a.PredicateType)
	j.attesters = append(j.attesters, at.by...)
	j.attestedBy = append(j.attestedBy, at.identities...)
	j.warnings = append(j.warnings, at.warnings...)
}

const shownObjections = 5

func objection(a gate.AttestationRule, reasons []string) said {
	reasons = sorted(reasons)
	if more := len(reasons) - shownObjections; more > 0 {
		reasons = append(reasons[:shownObjections:shownObjections], fmt.Sprintf("and %d more", more))
	}
	return said{
		outcome: gate.ImageUntrusted,
		message: fmt.Sprintf("attestation of type %s is refused: %s", a.PredicateType, strings.Join(reasons, "; ")),
		remedy:  "correct what it says about the image, and attest the result anew",
	}
}

func undecidedPolicy(a gate.AttestationRule, failures []string) said {
	return said{
		message: fmt.Sprintf("attestation of type %s could not be judged: %s", a.PredicateType, strings.Join(sorted(failures), "; ")),
		remedy:  "correct the demand's policy; opa eval with the statement as input shows the same",
	}
}

// objections to a statement, none if it passes.
func (r *run) objections(a gate.AttestationRule, s *statement) ([]string, error) {
	predicate, err := s.decodedPredicate()
	if err != nil {
		return nil, err
	}
	if failed := ownResult(s.predicateType, predicate); failed != "" {
		return []string{failed}, nil
	}
	if a.Policy == "" {
		return nil, nil
	}
	document, err := s.document()
	if err != nil {
		return nil, err
	}
	return policy.Evaluate(r.ctx, a.Policy, document)
}

func validatePolicy(module string) error {
	if err := policy.CompileStatement(module); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	return nil
}

// Predicate types that are more to a decision than a name.
const (
	predicateCosignVuln   = "https://cosign.sigstore.dev/attestation/vuln/v1"
	predicateVulns        = "https://in-toto.io/attestation/vulns"
	predicateTestResult   = "https://in-toto.io/attestation/test-result/"
	predicateVerification = "https://slsa.dev/verification_summary/"
)

// isScan says whether statements of a type report vulnerabilities as of a time.
func isScan(predicateType string) bool {
	return predicateType == predicateCosignVuln || predicateType == predicateVulns || strings.HasPrefix(predicateType, predicateVulns+"/")
}

// ownResult says what a statement that failed by its own account says, "" for one that
// did not: no policy has to be written for that. A verification summary has to say that
// it passed.
func ownResult(predicateType string, predicate any) string {
	if strings.HasPrefix(predicateType, predicateVerification) {
		if result := text(predicate, "verificationResult"); result != "PASSED" {
			return fmt.Sprintf("its verificationResult is %.40q and not PASSED", result)
		}
	}
	if isScan(predicateType) || strings.HasPrefix(predicateType, predicateTestResult) {
		for _, result := range []string{text(predicate, "result"), text(predicate, "scanner", "result")} {
			if strings.EqualFold(result, "FAILED") || strings.EqualFold(result, "FAIL") {
				return fmt.Sprintf("its result is %.40q", result)
			}
		}
	}
	return ""
}

// text at a path of names, "" if there is none.
func text(v any, path ...string) string {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	s, _ := v.(string)
	return s
}

// newestScans are all that may be the newest: those with the latest time, and those
// without a time.
func newestScans(found []attested) []attested {
	times := make([]time.Time, len(found))
	var latest time.Time
	for i, at := range found {
		times[i] = scanTime(at.statement)
		if times[i].After(latest) {
			latest = times[i]
		}
	}
	var out []attested
	for i, at := range found {
		if times[i].IsZero() || times[i].Equal(latest) {
			out = append(out, at)
		}
	}
	return out
}

// scanTime is zero for a scan that does not say when it was.
func scanTime(s *statement) time.Time {
	predicate, err := s.decodedPredicate()
	if err != nil {
		return time.Time{}
	}
	written := text(predicate, "metadata", "scanFinishedOn")
	if written == "" {
		written = text(predicate, "metadata", "scanStartedOn")
	}
	t, err := time.Parse(time.RFC3339, written)
	if err != nil {
		return time.Time{}
	}
	return t
}
