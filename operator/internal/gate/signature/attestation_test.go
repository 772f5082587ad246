package signature

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const (
	vuln       = "https://cosign.sigstore.dev/attestation/vuln/v1"
	provenance = "https://slsa.dev/provenance/v1"
	noCritical = `package scans
deny contains sprintf("%s is critical", [v.id]) if {
	some v in input.predicate.scanner.result.vulnerabilities
	v.severity == "CRITICAL"
}`
)

// scan is a predicate of cosign's type; when is the time it finished.
func scan(when string, critical ...string) map[string]any {
	found := []any{}
	for _, id := range critical {
		found = append(found, map[string]any{"id": id, "severity": "CRITICAL"})
	}
	metadata := map[string]any{}
	if when != "" {
		metadata["scanFinishedOn"] = when
	}
	return map[string]any{
		"scanner":  map[string]any{"uri": "pkg:github/example/scanner", "result": map[string]any{"vulnerabilities": found}},
		"metadata": metadata,
	}
}

// demanding asks for attestations only.
func demanding(authorities []gate.Authority, demands ...gate.AttestationRule) gate.ImageRule {
	return gate.ImageRule{Require: gate.Requirement{None: true}, Authorities: authorities, Attestations: demands}
}

func demand(predicateType, policy string, authorities ...string) gate.AttestationRule {
	return gate.AttestationRule{PredicateType: predicateType, Policy: policy, Authorities: authorities}
}

// Every case runs in bundles and under the .att tag, by a key and by an identity.
func TestCheck_AttestationsAreOfTheTypeByTheAuthorityAboutTheImage(t *testing.T) {
	old := testkit.DigestOf("old")
	type made func(digest, predicateType string, predicate any) gate.Signature
	no := "image has no attestation of type " + provenance + " that authority a accepts"
	verified := judged{Outcome: gate.ImageVerified, Authority: "a", Attestations: []string{provenance}}
	for title, tc := range map[string]struct {
		demand gate.AttestationRule
		held   func(mine, theirs made) []gate.Signature
		want   judged
	}{
		"the right one": {demand(provenance, ""), func(mine, _ made) []gate.Signature { return []gate.Signature{mine(webDigest, provenance, nil)} }, verified},
		"the right one after others": {demand(provenance, ""), func(mine, theirs made) []gate.Signature {
			return []gate.Signature{{Format: gate.FormatBundle, Bundle: []byte("{")}, theirs(webDigest, provenance, nil), mine(old, provenance, nil), mine(webDigest, vuln, nil), mine(webDigest, provenance, nil)}
		}, verified},
		"none": {demand(provenance, ""), func(made, made) []gate.Signature { return nil }, judged{Outcome: gate.ImageUnsigned, Deny: []string{no}}},
		"by another": {demand(provenance, ""), func(_, theirs made) []gate.Signature { return []gate.Signature{theirs(webDigest, provenance, nil)} },
			judged{Outcome: gate.ImageUntrusted, Deny: []string{no}}},
		"about another image": {demand(provenance, ""), func(mine, _ made) []gate.Signature { return []gate.Signature{mine(old, provenance, nil)} },
			judged{Outcome: gate.ImageUntrusted, Deny: []string{no}}},
		"of another type": {demand(provenance, ""), func(mine, _ made) []gate.Signature { return []gate.Signature{mine(webDigest, vuln, nil)} },
			judged{Outcome: gate.ImageUnsigned, Deny: []string{no}}},
		"of an older version of the type": {demand(provenance, ""), func(mine, _ made) []gate.Signature {
			return []gate.Signature{mine(webDigest, "https://slsa.dev/provenance/v0.2", nil)}
		}, judged{Outcome: gate.ImageUnsigned, Deny: []string{no}}},
		"of a type that begins the same": {demand(provenance, ""), func(mine, _ made) []gate.Signature {
			return []gate.Signature{mine(webDigest, provenance+"?draft", nil)}
		},
			judged{Outcome: gate.ImageUnsigned, Deny: []string{no}}},
		"of a type in other case": {demand(provenance, ""), func(mine, _ made) []gate.Signature {
			return []gate.Signature{mine(webDigest, strings.ToUpper(provenance), nil)}
		}, judged{Outcome: gate.ImageUnsigned, Deny: []string{no}}},
		"by an authority that is not named": {demand(provenance, "", "b"), func(mine, _ made) []gate.Signature { return []gate.Signature{mine(webDigest, provenance, nil)} },
			judged{Outcome: gate.ImageUntrusted, Deny: []string{"no authority of rule registry.example.com/shop/** may make the attestation of type " + provenance + " that it asks for"}}},
		"a predicate that is text": {demand(provenance, ""), func(mine, _ made) []gate.Signature {
			return []gate.Signature{mine(webDigest, provenance, "SPDXVersion: 2.3")}
		}, verified},
	} {
		for _, tag := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s: key, tag %v", title, tag), func(t *testing.T) {
				held := tc.held(func(d, p string, v any) gate.Signature { return keyStatement(t, keys()[0], tag, d, p, v) },
					func(d, p string, v any) gate.Signature { return keyStatement(t, keys()[1], tag, d, p, v) })
				a := authority(0)
				a.Name = "a"
				checkDemand(t, a, tc.demand, held, tc.want)
			})
			t.Run(fmt.Sprintf("%s: identity, tag %v", title, tag), func(t *testing.T) {
				held := tc.held(func(d, p string, v any) gate.Signature { return statementBy(t, ci(), tag, d, p, v) },
					func(d, p string, v any) gate.Signature {
						return statementBy(t, person("bob@example.com", ciIssuer), tag, d, p, v)
					})
				a := keylessCI(t, nil)
				a.Name = "a"
				want := tc.want
				if want.Authority != "" {
					want.Identity = ciName
				}
				checkDemand(t, a, tc.demand, held, want)
			})
		}
	}
}

// checkDemand tries both lists: what counts is what is stored and not where it was found.
func checkDemand(t *testing.T, a gate.Authority, d gate.AttestationRule, held []gate.Signature, want judged) {
	t.Helper()
	rule := demanding([]gate.Authority{a}, d)
	for title, in := range map[string]*gate.Input{
		"attestations": withAttestations(input(rule), held...), "signatures": input(rule, held...), "both": withAttestations(input(rule, held...), held...),
	} {
		got := judge(t, in)
		if diff := got.diff(want); diff != "" {
			t.Errorf("in %s: %s", title, diff)
		}
	}
}

func TestCheck_AttestationsNeedWhatSignaturesNeed(t *testing.T) {
	verified := judged{Outcome: gate.ImageVerified, Authority: "ci", Identity: ciName, Attestations: []string{provenance}}
	warn := verified
	warn.Warn = []string{noLogWarn}
	no := judged{Outcome: gate.ImageUntrusted, Deny: []string{"image has no attestation of type " + provenance + " that authority ci accepts"}}
	for title, tc := range map[string]struct {
		gate func(*gate.Keyless)
		by   testkit.Identity
		want judged
	}{
		"everything":                   {nil, ci(), verified},
		"no log entry":                 {nil, ci(testkit.PartLog), no},
		"no log entry, ignored":        {lenient(true, false), ci(testkit.PartLog), warn},
		"no log entry and no time":     {lenient(true, false), ci(testkit.PartLog, testkit.PartTimestamp), no},
		"no promise":                   {nil, ci(testkit.PartCertificateLog), no},
		"no timestamp, but a log time": {nil, ci(testkit.PartTimestamp), verified},
	} {
		for _, tag := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tag %v", title, tag), func(t *testing.T) {
				in := withAttestations(input(demanding([]gate.Authority{keylessCI(t, tc.gate)}, demand(provenance, ""))), statementBy(t, tc.by, tag, webDigest, provenance, nil))
				if diff := judge(t, in).diff(tc.want); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestCheck_TheNewestScanDecides(t *testing.T) {
	const day1, day2 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	passes := judged{Outcome: gate.ImageVerified, Authority: "key-0", Attestations: []string{vuln}}
	fails := func(reasons string) judged {
		return judged{Outcome: gate.ImageUntrusted, Deny: []string{"attestation of type " + vuln + " is refused: " + reasons}}
	}
	started := scan("", "CVE-1")
	started["metadata"] = map[string]any{"scanStartedOn": day2}
	garbage := scan("tomorrow", "CVE-1")
	for title, tc := range map[string]struct {
		scans []any
		want  judged
	}{
		"one that passes":                        {[]any{scan(day1)}, passes},
		"one that fails":                         {[]any{scan(day1, "CVE-1")}, fails("CVE-1 is critical")},
		"older fails, newer passes":              {[]any{scan(day1, "CVE-1"), scan(day2)}, passes},
		"older passes, newer fails":              {[]any{scan(day1), scan(day2, "CVE-1")}, fails("CVE-1 is critical")},
		"in the other order":                     {[]any{scan(day2, "CVE-1"), scan(day1)}, fails("CVE-1 is critical")},
		"at the same time, one fails":            {[]any{scan(day2), scan(day2, "CVE-1")}, fails("CVE-1 is critical")},
		"at the same time in another zone":       {[]any{scan(day2), scan("2026-01-02T01:00:00+01:00", "CVE-1")}, fails("CVE-1 is critical")},
		"at the same time, both pass":            {[]any{scan(day2), scan(day2)}, passes},
		"one without a time fails":               {[]any{scan(day2), scan("", "CVE-1")}, fails("CVE-1 is critical")},
		"one without a time passes":              {[]any{scan(day1, "CVE-1"), scan(day2), scan("")}, passes},
		"without a time, and the newest fails":   {[]any{scan(""), scan(day2, "CVE-1")}, fails("CVE-1 is critical")},
		"the start counts where there is no end": {[]any{scan(day1), started}, fails("CVE-1 is critical")},
		"a time that is none is no time":         {[]any{scan(day2), garbage}, fails("CVE-1 is critical")},
		"all reasons are told":                   {[]any{scan(day2, "CVE-2"), scan(day2, "CVE-1")}, fails("CVE-1 is critical; CVE-2 is critical")},
		"it says itself that it failed": {[]any{map[string]any{"result": "FAILED", "metadata": map[string]any{"scanFinishedOn": day2}}},
			fails(`its result is "FAILED"`)},
		"its scanner says that it failed": {[]any{map[string]any{"scanner": map[string]any{"result": "failed"}}}, fails(`its result is "failed"`)},
	} {
		for _, tag := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tag %v", title, tag), func(t *testing.T) {
				var held []gate.Signature
				for _, s := range tc.scans {
					held = append(held, keyStatement(t, keys()[0], tag, webDigest, vuln, s))
				}
				// By somebody else the worst scan decides nothing.
				held = append(held, keyStatement(t, keys()[1], tag, webDigest, vuln, scan("2030-01-01T00:00:00Z", "CVE-9")))
				in := withAttestations(input(demanding([]gate.Authority{authority(0)}, demand(vuln, noCritical))), held...)
				if diff := judge(t, in).diff(tc.want); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestCheck_OfOtherTypesOneThatPassesIsEnough(t *testing.T) {
	const summary, review = "https://slsa.dev/verification_summary/v1", "https://example.com/review/v1"
	const olderSummary = "https://slsa.dev/verification_summary/v0.2"
	policy := "package reviews\ndeny contains \"not approved\" if not input.predicate.approved\ndeny contains \"approved by nobody\" if not input.predicate.by"
	passes := func(predicateType string) judged {
		return judged{Outcome: gate.ImageVerified, Authority: "key-0", Attestations: []string{predicateType}}
	}
	fails := func(predicateType, reasons string) judged {
		return judged{Outcome: gate.ImageUntrusted, Deny: []string{"attestation of type " + predicateType + " is refused: " + reasons}}
	}
	type object = map[string]any
	for title, tc := range map[string]struct {
		predicateType, policy string
		predicates            []any
		want                  judged
	}{
		"one passes":          {review, policy, []any{object{"approved": false}, object{"approved": true, "by": "bob"}}, passes(review)},
		"none passes":         {review, policy, []any{object{"approved": false, "by": "bob"}, object{"approved": true}}, fails(review, "approved by nobody; not approved")},
		"a policy that fails": {review, "package p\ndeny contains \"no\" if 1 / input.predicate.zero > 1", []any{object{"zero": 0}}, judged{Outcome: gate.ImageError, Undecided: []string{"attestation of type " + review + " could not be judged: evaluation failed"}}},
		"a policy that fails for one and passes for another": {review, "package p\ndeny contains \"no\" if 1 / input.predicate.n > 1", []any{object{"n": 0}, object{"n": 1}}, passes(review)},
		"the subject is there for a policy":                  {review, "package p\ndeny contains input._type if count(input.subject) == 1\ndeny contains input.predicateType if true", []any{object{}}, fails(review, review+"; https://in-toto.io/Statement/v1")},
		"numbers are as they are written":                    {review, "package p\ndeny contains sprintf(\"%v\", [input.predicate.n]) if true", []any{object{"n": 9007199254740993}}, fails(review, "9007199254740993")},
		"a summary that passed":                              {summary, "", []any{object{"verificationResult": "PASSED"}}, passes(summary)},
		"a summary that failed":                              {summary, "", []any{object{"verificationResult": "FAILED"}}, fails(summary, `its verificationResult is "FAILED" and not PASSED`)},
		"an older summary that passed":                       {olderSummary, "", []any{object{"verification_result": "PASSED"}}, passes(olderSummary)},
		"an older summary that failed":                       {olderSummary, "", []any{object{"verification_result": "FAILED", "verificationResult": "PASSED"}}, fails(olderSummary, `its verification_result is "FAILED" and not PASSED`)},
		"a summary under the older name":                     {summary, "", []any{object{"verification_result": "PASSED"}}, fails(summary, `its verificationResult is "" and not PASSED`)},
		"a summary that says nothing":                        {summary, "", []any{object{}}, fails(summary, `its verificationResult is "" and not PASSED`)},
		"a summary that is text":                             {summary, "", []any{"PASSED"}, fails(summary, `its verificationResult is "" and not PASSED`)},
		"a test that failed":                                 {"https://in-toto.io/attestation/test-result/v0.1", "", []any{object{"result": "FAILED"}}, fails("https://in-toto.io/attestation/test-result/v0.1", `its result is "FAILED"`)},
		"a custom type may say FAILED":                       {review, "", []any{object{"result": "FAILED"}}, passes(review)},
		"many reasons": {review, "package p\ndeny contains sprintf(\"%d\", [i]) if some i in numbers.range(1, 9)", []any{object{}},
			fails(review, "1; 2; 3; 4; 5; and 4 more")},
	} {
		t.Run(title, func(t *testing.T) {
			var held []gate.Signature
			for i, p := range tc.predicates {
				held = append(held, keyStatement(t, keys()[0], i%2 == 1, webDigest, tc.predicateType, p))
			}
			got := judge(t, withAttestations(input(demanding([]gate.Authority{authority(0)}, demand(tc.predicateType, tc.policy))), held...))
			if len(got.Undecided) == 1 && len(tc.want.Undecided) == 1 && strings.HasPrefix(got.Undecided[0], strings.TrimSuffix(tc.want.Undecided[0], "evaluation failed")) {
				got.Undecided = tc.want.Undecided // OPA's words are its own
			}
			if diff := got.diff(tc.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheck_AttestationsAndSignaturesAreBothNeeded(t *testing.T) {
	rule := anyOf(0, 1)
	rule.Attestations = []gate.AttestationRule{demand(provenance, "", "key-1"), demand(vuln, noCritical)}
	signed := claim(t, keys()[0], webDigest)
	built, scanned := keyStatement(t, keys()[1], true, webDigest, provenance, nil), keyStatement(t, keys()[0], false, webDigest, vuln, scan(""))
	noSignature := "image has no signature that authority key-0 or key-1 accepts"
	noBuild := "image has no attestation of type " + provenance + " that authority key-1 accepts"
	noScan := "image has no attestation of type " + vuln + " that authority key-0 or key-1 accepts"
	for title, tc := range map[string]struct {
		signatures, attestations []gate.Signature
		want                     judged
	}{
		"everything": {[]gate.Signature{signed}, []gate.Signature{built, scanned}, judged{Outcome: gate.ImageVerified, Authority: "key-0", Attestations: []string{vuln, provenance}}},
		"nothing":    {nil, nil, judged{Outcome: gate.ImageUnsigned, Deny: []string{noSignature, noBuild, noScan}}},
		"no signature, and attestations are none": {nil, []gate.Signature{built, scanned},
			judged{Outcome: gate.ImageUnsigned, Deny: []string{noSignature}, Attestations: []string{vuln, provenance}}},
		"a signature alone": {[]gate.Signature{signed}, nil, judged{Outcome: gate.ImageUnsigned, Deny: []string{noBuild, noScan}}},
		"one is missing":    {[]gate.Signature{signed}, []gate.Signature{scanned}, judged{Outcome: gate.ImageUnsigned, Deny: []string{noBuild}, Attestations: []string{vuln}}},
		"one is by an authority that may not": {[]gate.Signature{signed}, []gate.Signature{scanned, keyStatement(t, keys()[0], false, webDigest, provenance, nil)},
			judged{Outcome: gate.ImageUntrusted, Deny: []string{noBuild}, Attestations: []string{vuln}}},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := judge(t, withAttestations(input(rule, tc.signatures...), tc.attestations...)).diff(tc.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheck_AttestationsOfAKeyThatIsGone(t *testing.T) {
	gone := gate.Authority{Name: "gone", Unavailable: "Secret sluice-system/scanner is not there"}
	missing := "the key of authority gone: Secret sluice-system/scanner is not there"
	mine, theirs := keyStatement(t, keys()[0], false, webDigest, vuln, scan("")), keyStatement(t, keys()[1], false, webDigest, vuln, scan(""))
	built := keyStatement(t, keys()[0], false, webDigest, provenance, nil)
	for title, tc := range map[string]struct {
		predicateType string
		held          []gate.Signature
		want          judged
	}{
		"nothing is there: that is enough to know": {vuln, nil, judged{Outcome: gate.ImageUnsigned, Deny: []string{"image has no attestation of type " + vuln + " that authority gone or key-0 accepts"}}},
		"what is there may be theirs":              {vuln, []gate.Signature{theirs}, judged{Outcome: gate.ImageError, Undecided: []string{missing}}},
		"a scan that may be theirs may be newer":   {vuln, []gate.Signature{mine, theirs}, judged{Outcome: gate.ImageError, Undecided: []string{missing}}},
		"of another type one is enough":            {provenance, []gate.Signature{built, keyStatement(t, keys()[1], false, webDigest, provenance, nil)}, judged{Outcome: gate.ImageVerified, Authority: "key-0", Attestations: []string{provenance}}},
		"every scan is known":                      {vuln, []gate.Signature{mine}, judged{Outcome: gate.ImageVerified, Authority: "key-0", Attestations: []string{vuln}}},
	} {
		t.Run(title, func(t *testing.T) {
			in := withAttestations(input(demanding([]gate.Authority{gone, authority(0)}, demand(tc.predicateType, ""))), tc.held...)
			if diff := judge(t, in).diff(tc.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValidateAttestation_SaysFieldAndRemedy(t *testing.T) {
	rule := anyOf(0, 1)
	rule.Match = "registry.example.com/shop/**"
	for title, tc := range map[string]struct {
		demand gate.AttestationRule
		want   string
	}{
		"no type":                     {demand("", ""), "predicateType"},
		"space":                       {demand(" "+vuln, ""), "predicateType"},
		"that of signatures":          {demand(testkit.PredicateSign, ""), "predicateType is that of image signatures: take it out, and ask for signatures with require"},
		"an unknown signer":           {demand(vuln, "", "key-0", "bob"), `has no authority "bob": name one of key-0 or key-1`},
		"a policy in words":           {demand(vuln, "no criticals"), "policy: "},
		"a policy that can only warn": {demand(vuln, "package p\nwarn contains \"no\" if true"), "policy: "},
	} {
		t.Run(title, func(t *testing.T) {
			if err := ValidateAttestation(rule, tc.demand); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if err := ValidateAttestation(rule, demand(vuln, noCritical, "key-1")); err != nil {
		t.Error(err)
	}
}
