package signature

import (
	"errors"
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
//
// The answer has three values. What was not read may be any statement by anybody, and a
// statement that no authority accepted may be of one whose key cannot be used. The demand
// is met, or not met, if that is so whatever those turn out to be; else it is undecided.
func (r *run) attestation(j *judgement, a gate.AttestationRule, held *evidence) {
	var ofType []*stored
	for _, s := range held.attestations {
		if s.statement != nil && s.statement.predicateType == a.PredicateType {
			ofType = append(ofType, s)
		}
	}
	d := demanded{AttestationRule: a, held: len(ofType)}
	d.found, d.rest, d.tally = r.attestedBy(j, a, ofType)
	d.unread = held.unreadOf(a.PredicateType)
	if isScan(a.PredicateType) || len(d.found) == 0 {
		d.unreadable = r.unreadableBy(j, a, held.unreadable)
	}
	if isScan(a.PredicateType) {
		r.newestPasses(j, d)
	} else {
		r.onePasses(j, d)
	}
}

// demanded is one demand with what there is to meet it.
type demanded struct {
	gate.AttestationRule
	tally
	// held is how many statements of the type there are.
	held int
	// found are by the demand's authorities.
	found []attested
	// unreadable says which of theirs cannot be read, and why: of scans, and where none was found.
	unreadable []string
	// rest are about the image, and by an authority whose key cannot be used, if by any.
	rest []*stored
}

// attestedBy asks the demand's authorities about statements. The rest may be by those
// that could not be asked. The tally holds what is needed to say who did not make one.
func (r *run) attestedBy(j *judgement, a gate.AttestationRule, ofType []*stored) (found []attested, rest []*stored, t tally) {
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
	for i, at := range byIndex {
		switch {
		case at.statement != nil:
			found = append(found, at)
		case len(t.unknown) > 0 && ofType[i].statement.isAbout(j.digest):
			rest = append(rest, ofType[i])
		}
	}
	return found, rest, t
}

// unreadableBy says of statements that cannot be read and seem to be of the type which
// are by the demand's authorities, or may be by one that cannot be asked. That is told
// from the envelope alone: what they are about is not known.
func (r *run) unreadableBy(j *judgement, a gate.AttestationRule, held []*stored) []string {
	var reasons []string
	names := authorityNames(j.rule.Authorities)
	for i, authority := range j.rule.Authorities {
		if len(a.Authorities) > 0 && !slices.Contains(a.Authorities, names[i]) {
			continue
		}
		v, unusable := r.verifier(authority)
		for _, s := range held {
			if r.ctx.Err() != nil || s.hint != "" && s.hint != a.PredicateType {
				continue
			}
			if unusable != nil || v.signed(r.ctx, s) {
				reasons = append(reasons, fmt.Sprintf("one by authority %s cannot be read (%v)", names[i], s.unreadable))
			}
		}
	}
	return sorted(reasons)
}

// unattested says that no authority made a statement of the type.
func (d demanded) unattested(j *judgement) said {
	if len(d.missing) == 0 {
		return said{
			outcome: gate.ImageUntrusted,
			message: fmt.Sprintf("no authority of rule %s may make the attestation of type %s that it asks for", j.rule.Match, d.PredicateType),
			remedy:  "name authorities of the rule in attestations[].authorities",
		}
	}
	command := "cosign attest --type " + d.PredicateType + " --predicate predicate.json "
	if d.keyed || !d.keyless {
		command += "--key cosign.key "
	}
	s := said{
		outcome: gate.ImageUnsigned,
		message: fmt.Sprintf("image has no attestation of type %s that authority %s accepts", d.PredicateType, list(d.missing, "or")),
		remedy:  "attest it: " + command + j.image.Repository + "@" + j.digest.text,
	}
	if d.held > 0 {
		s.outcome = gate.ImageUntrusted
		s.remedy = fmt.Sprintf("the registry holds %s of this type that none of them accepts%s; %s", plural(d.held, "attestation"), because(d.reasons), s.remedy)
	}
	if len(d.unreadable) > 0 { // to attest the same once more would not help
		s.outcome = gate.ImageUntrusted
		s.remedy = fmt.Sprintf("the registry holds what may be it: %s; correct what writes it; %s", shown(d.unreadable), s.remedy)
	}
	return s
}

func (r *run) onePasses(j *judgement, d demanded) {
	var reasons []string
	var failures []error
	passed := false
	for _, at := range d.found {
		denied, err := r.objections(d.AttestationRule, at.statement)
		switch {
		case err != nil:
			failures = append(failures, err)
		case len(denied) > 0:
			reasons = append(reasons, denied...)
		default:
			j.pass(d.AttestationRule, at)
			passed = true
		}
	}
	switch {
	case passed:
	case len(failures) > 0:
		j.undecided = append(j.undecided, undecidedPolicy(d.AttestationRule, failures))
	case len(d.unread) > 0 || slices.ContainsFunc(d.rest, func(s *stored) bool { return r.mayPass(d, s) }):
		j.undecided = append(j.undecided, r.unsettled(d.tally))
	case len(d.found) == 0:
		j.deny = append(j.deny, d.unattested(j))
	default:
		j.deny = append(j.deny, objection(d.AttestationRule, reasons))
	}
}

// mayPass says whether a statement would do if it were by one of the demand's authorities.
func (r *run) mayPass(d demanded, s *stored) bool {
	denied, err := r.objections(d.AttestationRule, s.statement)
	return err != nil || len(denied) == 0
}

func (r *run) newestPasses(j *judgement, d demanded) {
	var reasons []string
	var failures []error
	newest, latest := newestScans(d.found)
	// timeless says that a scan is refused that no newer one can stand in for.
	timeless := false
	for _, at := range newest {
		denied, err := r.objections(d.AttestationRule, at.statement)
		if err != nil {
			failures = append(failures, err)
		}
		reasons = append(reasons, denied...)
		timeless = timeless || len(denied) > 0 && scanTime(at.statement).IsZero()
	}
	switch {
	case (len(d.found) == 0 || len(reasons) > 0 && !timeless) && r.mayDo(d, latest):
		j.undecided = append(j.undecided, r.unsettled(d.tally))
	case len(d.found) == 0:
		j.deny = append(j.deny, d.unattested(j))
	case len(reasons) > 0:
		j.deny = append(j.deny, objection(d.AttestationRule, reasons))
	case len(failures) > 0:
		j.undecided = append(j.undecided, undecidedPolicy(d.AttestationRule, failures))
	case len(d.unread)+len(d.rest) > 0:
		// Any of them may be a newer one that finds something.
		j.undecided = append(j.undecided, r.unsettled(d.tally))
	case len(d.unreadable) > 0:
		// So may these. They never pass, so that they cannot stand in for one that does not.
		j.undecided = append(j.undecided, said{
			message: fmt.Sprintf("attestation of type %s may be newer than those that can be read: %s", d.PredicateType, shown(d.unreadable)),
			remedy:  "correct what writes it, attest anew, and remove the one that cannot be read from the repository",
		})
	default:
		for _, at := range newest {
			j.pass(d.AttestationRule, at)
		}
	}
}

// mayDo says whether a scan could meet the demand in place of those that were found, the
// latest of which is of that time: one that was not read, or a newer one that passes.
func (r *run) mayDo(d demanded, latest time.Time) bool {
	return len(d.unread) > 0 || slices.ContainsFunc(d.rest, func(s *stored) bool {
		return (len(d.found) == 0 || scanTime(s.statement).After(latest)) && r.mayPass(d, s)
	})
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

func undecidedPolicy(a gate.AttestationRule, failures []error) said {
	texts, tooLarge := make([]string, len(failures)), true
	for i, err := range failures {
		texts[i] = err.Error()
		tooLarge = tooLarge && errors.Is(err, errParts)
	}
	s := said{
		message: fmt.Sprintf("attestation of type %s could not be judged: %s", a.PredicateType, strings.Join(sorted(texts), "; ")),
		remedy:  "correct the demand's policy; opa eval with the statement as input shows the same",
	}
	if tooLarge {
		s.remedy = "attest less in one statement, such as packages without their files"
		if !hasResult(a.PredicateType) {
			s.remedy += ", or ask for it without a policy"
		}
	}
	return s
}

// objections to a statement, none if it passes.
func (r *run) objections(a gate.AttestationRule, s *statement) ([]string, error) {
	if hasResult(s.predicateType) {
		predicate, err := s.decodedPredicate()
		if err != nil {
			return nil, err
		}
		if failed := ownResult(s.predicateType, predicate); failed != "" {
			return []string{failed}, nil
		}
	}
	if a.Policy == "" {
		return nil, nil
	}
	document, err := s.document()
	if err != nil {
		return nil, err
	}
	denied, err := policy.Evaluate(r.ctx, a.Policy, document)
	r.unsure = r.unsure || err != nil
	return denied, err
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

// hasResult says whether a statement of a type says itself whether it passed. Others are
// not decoded where no policy asks: an SBOM takes many times its size in memory.
func hasResult(predicateType string) bool {
	return isScan(predicateType) || strings.HasPrefix(predicateType, predicateTestResult) || strings.HasPrefix(predicateType, predicateVerification)
}

// ownResult says what a statement that failed by its own account says, "" for one that
// did not: no policy has to be written for that. A verification summary has to say that
// it passed.
func ownResult(predicateType string, predicate any) string {
	if strings.HasPrefix(predicateType, predicateVerification) {
		field := "verificationResult"
		if strings.HasPrefix(predicateType, predicateVerification+"v0.") {
			field = "verification_result"
		}
		if result := text(predicate, field); result != "PASSED" {
			return fmt.Sprintf("its %s is %.40q and not PASSED", field, result)
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
func newestScans(found []attested) (newest []attested, latest time.Time) {
	times := make([]time.Time, len(found))
	for i, at := range found {
		times[i] = scanTime(at.statement)
		if times[i].After(latest) {
			latest = times[i]
		}
	}
	for i, at := range found {
		if times[i].IsZero() || times[i].Equal(latest) {
			newest = append(newest, at)
		}
	}
	return newest, latest
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
