package signature

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	cosigntypes "github.com/sigstore/cosign/v2/pkg/types"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// ValidateKeyless says why an identity cannot be used, by field and with what to do. An
// issuer and a subject have to be given, each exactly or as an anchored RE2 pattern that
// does not accept just anybody, and a trusted root under which something can be
// accepted.
func ValidateKeyless(k gate.Keyless) error {
	if err := ValidateIdentity(k); err != nil {
		return err
	}
	return ValidateRoot(k.TrustedRoot)
}

// ValidateRoot says why nothing could be accepted under trusted_root.json.
func ValidateRoot(raw []byte) error {
	_, err := readTrustedRoot(raw)
	return err
}

// ValidateIdentity is ValidateKeyless but for the trusted root, which may come later.
func ValidateIdentity(k gate.Keyless) error {
	if _, err := newMatcher("issuer", k.Issuer, k.IssuerRegExp); err != nil {
		return err
	}
	_, err := newMatcher("subject", k.Subject, k.SubjectRegExp)
	return err
}

// matcher is an exact text or a pattern.
type matcher struct {
	exact   string
	pattern *regexp.Regexp
}

func (m matcher) matches(s string) bool {
	if m.pattern != nil {
		return m.pattern.MatchString(s)
	}
	return m.exact != "" && m.exact == s
}

// source of the pattern, empty if there is none.
func (m matcher) source() string {
	if m.pattern == nil {
		return ""
	}
	return m.pattern.String()
}

func newMatcher(field, exact, pattern string) (matcher, error) {
	switch {
	case exact != "" && pattern != "":
		return matcher{}, fmt.Errorf("%s and %sRegExp are both given: keep one of them", field, field)
	case exact == "" && pattern == "":
		return matcher{}, fmt.Errorf("neither %s nor %sRegExp is given, so that anybody could sign: name the %s", field, field, field)
	case exact != "":
		return matcher{exact: exact}, nil
	}
	compiled, err := compilePattern(pattern)
	if err != nil {
		return matcher{}, fmt.Errorf("%sRegExp %.80q %w", field, pattern, err)
	}
	return matcher{pattern: compiled}, nil
}

// compilePattern makes the pattern match in full, whatever its anchors bind to: ^a|b$
// would otherwise match all that starts with a.
func compilePattern(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > limits.PatternBytes {
		return nil, fmt.Errorf("is longer than %d bytes (limits.PatternBytes): split it into several authorities", limits.PatternBytes)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("is not an RE2 pattern: %w", err)
	}
	if !anchored(tree, syntax.OpBeginText, 0) || !anchored(tree, syntax.OpEndText, -1) {
		return nil, errors.New("is not anchored: start it with ^ and end it with $, and put alternatives into brackets, such as ^(a|b)$")
	}
	compiled, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return nil, fmt.Errorf("is not an RE2 pattern: %w", err)
	}
	for _, stranger := range strangers {
		if compiled.MatchString(stranger) {
			return nil, fmt.Errorf("accepts just anybody, %s for one: write out the host or the domain", stranger)
		}
	}
	return compiled, nil
}

// strangers are identities and issuers of a domain that cannot exist (RFC 6761), in the
// forms that occur. A pattern that accepts one of them binds nothing to anybody.
var strangers = []string{
	"stranger.invalid", "stranger@stranger.invalid", "https://stranger.invalid", "http://stranger.invalid/",
	"https://stranger.invalid/a/b", "https://stranger.invalid/a/b/.github/workflows/c.yaml@refs/heads/main",
	"https://stranger.invalid/a/b/.github/workflows/release.yml@refs/tags/v1.2.3",
	"https://stranger.invalid/a/b//.gitlab-ci.yml@refs/heads/main", "spiffe://stranger.invalid/ns/a/sa/b", "STRANGER.INVALID",
}

// anchored says whether every alternative begins (at 0) or ends (at -1) with the anchor.
func anchored(re *syntax.Regexp, anchor syntax.Op, end int) bool {
	switch re.Op {
	case anchor:
		return true
	case syntax.OpCapture:
		return anchored(re.Sub[0], anchor, end)
	case syntax.OpConcat:
		return anchored(re.Sub[(len(re.Sub)+end)%len(re.Sub)], anchor, end)
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if !anchored(sub, anchor, end) {
				return false
			}
		}
		return true
	}
	return false
}

// ValidateAttestation says why a demand for an attestation cannot be used: by field and
// with what to do.
func ValidateAttestation(rule gate.ImageRule, a gate.AttestationRule) error {
	if strings.TrimSpace(a.PredicateType) != a.PredicateType || a.PredicateType == "" {
		return fmt.Errorf("predicateType %.80q is empty or has space around it: give the statement's predicateType to the letter", a.PredicateType)
	}
	if a.PredicateType == cosigntypes.CosignSignPredicateType {
		return errors.New("predicateType is that of image signatures: take it out, and ask for signatures with require")
	}
	for _, name := range a.Authorities {
		if !hasAuthority(rule, name) {
			return fmt.Errorf("authorities: the rule for %s has no authority %.80q: name one of %s", rule.Match, name, list(authorityNames(rule.Authorities), "or"))
		}
	}
	if a.Policy == "" {
		return nil
	}
	return validatePolicy(a.Policy)
}

func hasAuthority(rule gate.ImageRule, name string) bool {
	for _, known := range authorityNames(rule.Authorities) {
		if known == name {
			return true
		}
	}
	return false
}
