// Package evidence makes and reads what an environment says of an image that passed it: a
// SLSA Verification Summary (https://slsa.dev/verification_summary/v1) in an in-toto
// statement. It signs and verifies nothing; who signed a statement is known before what it
// says is read.
package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// PredicateType of a verification summary.
const PredicateType = "https://slsa.dev/verification_summary/v1"

const (
	statementType = "https://in-toto.io/Statement/v1"
	// verifierPrefix stands before the environment in verifier.id.
	verifierPrefix = "https://sluice.dev/environments/"
	// exemptionsField holds what passed only because somebody let it through. The in-toto
	// specification has names of fields that are not its own be URIs.
	exemptionsField = "https://sluice.dev/exemptions"
)

// Result of a verification.
type Result string

// The results.
const (
	Passed Result = "PASSED"
	Failed Result = "FAILED"
)

// Resource names something by where it is and what it is.
type Resource struct {
	URI string
	// Digest as "sha256:<hex>"; empty where none is given.
	Digest string
}

// Exemption is one rule that the image did not pass, and who let it through.
type Exemption struct {
	// Name of the Exemption, with its reason and its end in RFC 3339.
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Expires string `json:"expires"`
	// Policy and Message are those of what was exempted.
	Policy  string `json:"policy"`
	Message string `json:"message"`
}

// Summary is one statement.
type Summary struct {
	// Subjects are the digests of the images that it is about, as "sha256:<hex>": of an
	// index its own and those of its images.
	Subjects []string
	// Verifier is the id of who verified; see Environment.
	Verifier string
	// Time of the verification, in whole seconds of UTC.
	Time time.Time
	// Resource names the image as it was verified.
	Resource string
	// Policy that was verified against.
	Policy Resource
	// Inputs are the attestations that the verification took.
	Inputs []Resource
	Result Result
	// Levels of SLSA that were verified. A statement has at least one: without any it says
	// that none was evaluated, and of a failure that it is one, as the specification has it.
	Levels []string
	// Exemptions that it passed by.
	Exemptions []Exemption
}

// Verifier is the id of an environment.
func Verifier(environment string) string { return verifierPrefix + environment }

// Environment that verified, and whether the verifier is one at all.
func (s Summary) Environment() (string, bool) {
	name, ours := strings.CutPrefix(s.Verifier, verifierPrefix)
	return name, ours && environmentForm.MatchString(name)
}

var environmentForm = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidateEnvironment says why a text is not the name of an environment.
func ValidateEnvironment(name string) error {
	if !environmentForm.MatchString(name) {
		return fmt.Errorf("%.80q is no environment: lower case letters, digits and - make a name, at most 63", name)
	}
	return nil
}

// validate holds what is made, and what is read, to the same rules.
func (s Summary) validate() error {
	if len(s.Subjects) == 0 || len(s.Subjects) > limits.EvidenceSubjects {
		return fmt.Errorf("it has %d subjects, and has to have 1 to %d (limits.EvidenceSubjects)", len(s.Subjects), limits.EvidenceSubjects)
	}
	all := slices.Clone(s.Subjects)
	for _, r := range append([]Resource{s.Policy}, s.Inputs...) {
		if r.Digest != "" {
			all = append(all, r.Digest)
		}
	}
	for _, d := range all {
		if err := digests.Validate(d); err != nil {
			return err
		}
	}
	switch {
	case s.Verifier == "":
		return errors.New("it has no verifier.id")
	case s.Time.IsZero():
		return errors.New("it has no timeVerified")
	case s.Result != Passed && s.Result != Failed:
		return fmt.Errorf("its verificationResult is %.40q, and neither PASSED nor FAILED", string(s.Result))
	}
	for _, l := range []struct {
		name string
		n    int
	}{{"inputAttestations", len(s.Inputs)}, {"verifiedLevels", len(s.Levels)}, {exemptionsField, len(s.Exemptions)}} {
		if l.n > limits.EvidenceEntries {
			return fmt.Errorf("%s has %d entries, more than %d (limits.EvidenceEntries)", l.name, l.n, limits.EvidenceEntries)
		}
	}
	return nil
}

// levels are the results that the specification knows for them.
func (s Summary) levels() []string {
	switch {
	case s.Result == Failed:
		return []string{string(Failed)}
	case len(s.Levels) == 0:
		return []string{"SLSA_BUILD_LEVEL_UNEVALUATED"}
	}
	return s.Levels
}

// Statement is the in-toto statement, as JSON: the same Summary gives the same bytes.
func (s Summary) Statement() ([]byte, error) {
	s.Time = s.Time.UTC().Truncate(time.Second)
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("making evidence: %w", err)
	}
	subjects := make([]map[string]any, 0, len(s.Subjects))
	for _, d := range s.Subjects {
		subjects = append(subjects, map[string]any{"digest": digestSet(d)})
	}
	inputs := make([]map[string]any, 0, len(s.Inputs))
	for _, i := range s.Inputs {
		inputs = append(inputs, descriptor(i))
	}
	predicate := map[string]any{
		"verifier": map[string]any{"id": s.Verifier}, "timeVerified": s.Time.Format(time.RFC3339), "resourceUri": s.Resource,
		"policy": descriptor(s.Policy), "inputAttestations": inputs, "verificationResult": string(s.Result),
		"verifiedLevels": s.levels(), exemptionsField: append([]Exemption{}, s.Exemptions...),
	}
	raw, err := json.Marshal(map[string]any{"_type": statementType, "subject": subjects, "predicateType": PredicateType, "predicate": predicate})
	if err == nil && len(raw) > limits.EvidenceStatementBytes {
		err = fmt.Errorf("it has %d bytes, more than %d (limits.EvidenceStatementBytes)", len(raw), limits.EvidenceStatementBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("making evidence: %w", err)
	}
	return raw, nil
}

func descriptor(r Resource) map[string]any {
	out := map[string]any{"uri": r.URI}
	if r.Digest != "" {
		out["digest"] = digestSet(r.Digest)
	}
	return out
}

func digestSet(digest string) map[string]string {
	return map[string]string{"sha256": digests.Hex(digest)}
}
