package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/strictjson"
)

// Parse reads a statement. Names count to the letter, and none may be there twice. Fields
// that are not known are passed over, as in-toto has readers do; the ones that decide have
// to be there.
func Parse(raw []byte) (Summary, error) {
	s, err := parse(raw)
	if err != nil {
		return Summary{}, fmt.Errorf("reading evidence: %w", err)
	}
	return s, nil
}

func parse(raw []byte) (Summary, error) {
	if len(raw) > limits.EvidenceStatementBytes {
		return Summary{}, fmt.Errorf("it has more than %d bytes (limits.EvidenceStatementBytes)", limits.EvidenceStatementBytes)
	}
	if err := strictjson.Check(raw, strictjson.Everywhere); err != nil {
		return Summary{}, err
	}
	statement, err := fieldsOf(raw, "the statement")
	if err != nil {
		return Summary{}, err
	}
	var kind, predicateType string
	var subjects []json.RawMessage
	if err := errors.Join(statement.into("_type", &kind), statement.into("predicateType", &predicateType), statement.into("subject", &subjects)); err != nil {
		return Summary{}, err
	}
	switch {
	case kind != statementType:
		return Summary{}, fmt.Errorf("its _type is %.80q and not %s", kind, statementType)
	case predicateType != PredicateType:
		return Summary{}, fmt.Errorf("its predicateType is %.80q and not %s", predicateType, PredicateType)
	case len(subjects) > limits.EvidenceSubjects:
		return Summary{}, fmt.Errorf("it has %d subjects, more than %d (limits.EvidenceSubjects)", len(subjects), limits.EvidenceSubjects)
	}
	var s Summary
	for _, raw := range subjects {
		r, err := resource(raw, "subject")
		if err != nil {
			return Summary{}, err
		}
		s.Subjects = append(s.Subjects, r.Digest)
	}
	if err := s.predicate(statement["predicate"]); err != nil {
		return Summary{}, err
	}
	return s, s.validate()
}

func (s *Summary) predicate(raw json.RawMessage) error {
	p, err := fieldsOf(raw, "predicate")
	if err != nil {
		return err
	}
	verifier, err := fieldsOf(p["verifier"], "verifier")
	if err != nil {
		return err
	}
	var at, result string
	var inputs, exemptions []json.RawMessage
	err = errors.Join(
		verifier.into("id", &s.Verifier), p.into("timeVerified", &at), p.into("resourceUri", &s.Resource), p.into("verificationResult", &result),
		p.into("verifiedLevels", &s.Levels), p.into("inputAttestations", &inputs), p.into(exemptionsField, &exemptions),
	)
	if err != nil {
		return err
	}
	s.Result = Result(result)
	// RFC 3339 in UTC or not; the time counts, and not how it is written.
	if s.Time, err = time.Parse(time.RFC3339, at); err != nil {
		return fmt.Errorf("timeVerified %.60q is no time as in RFC 3339", at)
	}
	s.Time = s.Time.UTC()
	if _, given := p["policy"]; given {
		if s.Policy, err = resource(p["policy"], "policy"); err != nil {
			return err
		}
	}
	if len(inputs) > limits.EvidenceEntries || len(exemptions) > limits.EvidenceEntries {
		return fmt.Errorf("inputAttestations or %s has more than %d entries (limits.EvidenceEntries)", exemptionsField, limits.EvidenceEntries)
	}
	for _, raw := range inputs {
		r, err := resource(raw, "inputAttestations")
		if err != nil {
			return err
		}
		s.Inputs = append(s.Inputs, r)
	}
	for _, raw := range exemptions {
		e, err := exemption(raw)
		if err != nil {
			return err
		}
		s.Exemptions = append(s.Exemptions, e)
	}
	return nil
}

func exemption(raw json.RawMessage) (Exemption, error) {
	f, err := fieldsOf(raw, exemptionsField)
	if err != nil {
		return Exemption{}, err
	}
	var e Exemption
	err = errors.Join(f.into("name", &e.Name), f.into("reason", &e.Reason), f.into("expires", &e.Expires), f.into("policy", &e.Policy), f.into("message", &e.Message))
	return e, err
}

func resource(raw json.RawMessage, what string) (Resource, error) {
	f, err := fieldsOf(raw, what)
	if err != nil {
		return Resource{}, err
	}
	var r Resource
	var sums map[string]string
	if err := errors.Join(f.into("uri", &r.URI), f.into("digest", &sums)); err != nil {
		return Resource{}, err
	}
	if sum, ok := sums["sha256"]; ok {
		// Who writes hexadecimal digits in capitals means the same.
		r.Digest = digests.Prefix + strings.ToLower(sum)
	}
	return r, nil
}

// fields of an object, by their exact names: encoding/json would take others for them.
type fields map[string]json.RawMessage

func fieldsOf(raw json.RawMessage, what string) (fields, error) {
	var f fields
	if json.Unmarshal(raw, &f) != nil || f == nil {
		return nil, fmt.Errorf("%s is not an object", what)
	}
	return f, nil
}

// into reads a field if it is there.
func (f fields) into(name string, v any) error {
	raw, ok := f[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s is of another type than it has to be", name)
	}
	return nil
}
