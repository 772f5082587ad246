package signature

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const (
	unreadReason = "sha256:00: it is larger than 1 bytes (limits.AttestationBytes)"
	notRead      = "what may be asked for is not read: " + unreadReason
	goneReason   = "the key of authority gone: not there"
)

func unreadPiece(label string) gate.Signature {
	return gate.Signature{Format: gate.FormatBundle, Unread: &gate.Unread{Reason: unreadReason, Predicate: label}}
}

// A decision is made where it is the same whatever that turns out to be which is not
// known: whose a statement is, or what stands in it.
func TestCheck_DemandsHaveThreeValues(t *testing.T) {
	const review = "https://example.com/review/v1"
	const policy = "package reviews\ndeny contains \"not approved\" if not input.predicate.approved"
	const day1, day2, day3 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"
	type object = map[string]any
	approved, refused := object{"approved": true}, object{"approved": false}
	gone := gate.Authority{Name: "gone", Unavailable: "not there"}
	mine := func(predicateType string, v any) gate.Signature {
		return keyStatement(t, keys()[0], false, webDigest, predicateType, v)
	}
	theirs := func(predicateType string, v any) gate.Signature {
		return keyStatement(t, keys()[1], false, webDigest, predicateType, v)
	}
	about := keyStatement(t, keys()[1], false, testkit.DigestOf("old"), review, approved)
	passes := func(predicateType string) judged {
		return judged{Outcome: gate.ImageVerified, Authority: "key-0", Attestations: []string{predicateType}}
	}
	no := func(o gate.ImageOutcome, predicateType string) judged {
		return judged{Outcome: o, Deny: []string{"image has no attestation of type " + predicateType + " that authority gone or key-0 accepts"}}
	}
	refusal := func(predicateType, reasons string) judged {
		return judged{Outcome: gate.ImageUntrusted, Deny: []string{"attestation of type " + predicateType + " is refused: " + reasons}}
	}
	open := func(reason string) judged { return judged{Outcome: gate.ImageError, Undecided: []string{reason}} }
	type list = []gate.Signature
	for title, tc := range map[string]struct {
		predicateType string
		held          list
		want          judged
	}{
		"one passes, the other's key is gone":                      {review, list{mine(review, approved), theirs(review, refused)}, passes(review)},
		"one passes, something was not read":                       {review, list{mine(review, approved), unreadPiece(review)}, passes(review)},
		"one is refused, and the other has none":                   {review, list{mine(review, refused)}, refusal(review, "not approved")},
		"one is refused, and what may be the other's passes":       {review, list{mine(review, refused), theirs(review, approved)}, open(goneReason)},
		"one is refused, and what may be the other's is too":       {review, list{mine(review, refused), theirs(review, refused)}, refusal(review, "not approved")},
		"one is refused, and the rest is about another image":      {review, list{mine(review, refused), about}, refusal(review, "not approved")},
		"one is refused, and something was not read":               {review, list{mine(review, refused), unreadPiece(review)}, open(goneReason + "; " + notRead)},
		"one is refused, and something without label was not read": {review, list{mine(review, refused), unreadPiece("")}, open(goneReason + "; " + notRead)},
		"one is refused, and another type was not read":            {review, list{mine(review, refused), unreadPiece(vuln)}, refusal(review, "not approved")},
		"none, and what may be the other's is refused":             {review, list{theirs(review, refused)}, no(gate.ImageUntrusted, review)},
		"none, and what may be the other's passes":                 {review, list{theirs(review, approved)}, open(goneReason)},
		"none, and something was not read":                         {review, list{unreadPiece(review)}, open(goneReason + "; " + notRead)},

		"a scan passes, and it is the only one":                     {vuln, list{mine(vuln, scan(day2))}, passes(vuln)},
		"a scan passes, and something was not read":                 {vuln, list{mine(vuln, scan(day2)), unreadPiece(vuln)}, open(goneReason + "; " + notRead)},
		"a scan passes, and another type was not read":              {vuln, list{mine(vuln, scan(day2)), unreadPiece(review)}, passes(vuln)},
		"a scan passes, and an older one may be the other's":        {vuln, list{mine(vuln, scan(day2)), theirs(vuln, scan(day1))}, open(goneReason)},
		"a scan fails, and a newer one may be the other's":          {vuln, list{mine(vuln, scan(day2, "CVE-1")), theirs(vuln, scan(day3))}, open(goneReason)},
		"a scan fails, and an older one may be the other's":         {vuln, list{mine(vuln, scan(day2, "CVE-1")), theirs(vuln, scan(day1))}, refusal(vuln, "CVE-1 is critical")},
		"a scan fails, and a newer one that fails may be theirs":    {vuln, list{mine(vuln, scan(day2, "CVE-1")), theirs(vuln, scan(day3, "CVE-2"))}, refusal(vuln, "CVE-1 is critical")},
		"a scan fails, and one without a time may be theirs":        {vuln, list{mine(vuln, scan(day2, "CVE-1")), theirs(vuln, scan(""))}, refusal(vuln, "CVE-1 is critical")},
		"a scan fails, and something was not read":                  {vuln, list{mine(vuln, scan(day2, "CVE-1")), unreadPiece(vuln)}, open(goneReason + "; " + notRead)},
		"a scan without a time fails, whatever else there is":       {vuln, list{mine(vuln, scan("", "CVE-1")), unreadPiece(vuln), theirs(vuln, scan(day3))}, refusal(vuln, "CVE-1 is critical")},
		"no scan, and what may be the other's fails":                {vuln, list{theirs(vuln, scan(day1, "CVE-1"))}, no(gate.ImageUntrusted, vuln)},
		"no scan, and what may be the other's passes":               {vuln, list{theirs(vuln, scan(day1))}, open(goneReason)},
		"a scan passes, and what may be theirs is of another image": {vuln, list{mine(vuln, scan(day2)), keyStatement(t, keys()[1], true, testkit.DigestOf("old"), vuln, scan(day3, "CVE-1"))}, passes(vuln)},
	} {
		t.Run(title, func(t *testing.T) {
			module := policy
			if tc.predicateType == vuln {
				module = noCritical
			}
			in := withAttestations(input(demanding([]gate.Authority{gone, authority(0)}, demand(tc.predicateType, module))), tc.held...)
			if diff := judge(t, in).diff(tc.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheck_SignaturesThatWereNotReadCountWhereTheyCouldMakeUp(t *testing.T) {
	gone := gate.Authority{Name: "gone", Unavailable: "not there"}
	rule := func(require gate.Requirement, authorities ...gate.Authority) gate.ImageRule {
		return gate.ImageRule{Require: require, Authorities: authorities}
	}
	all, two, three := gate.Requirement{All: true}, gate.Requirement{Count: 2}, gate.Requirement{Count: 3}
	signed := claim(t, keys()[0], webDigest)
	unread := unreadPiece(testkit.PredicateSign)
	second := unread
	second.Unread = &gate.Unread{Reason: "sha256:11: also", Predicate: ""}
	verified := judged{Outcome: gate.ImageVerified, Authority: "key-0"}
	open := judged{Outcome: gate.ImageError, Undecided: []string{notRead}}
	both := judged{Outcome: gate.ImageError, Undecided: []string{notRead + "; sha256:11: also"}}
	type list = []gate.Signature
	for title, tc := range map[string]struct {
		rule gate.ImageRule
		held list
		want judged
	}{
		"any, and one is good":                      {anyOf(0, 1), list{unread, signed}, verified},
		"any, and none is":                          {anyOf(0, 1), list{unread}, open},
		"any, and what was not read is a scan":      {anyOf(1), list{unreadPiece(vuln), signed}, judged{Outcome: gate.ImageUntrusted, Deny: []string{"image has no signature that authority key-1 accepts"}}},
		"no authority":                              {rule(all), list{unread}, judged{Outcome: gate.ImageUnsigned, Deny: []string{"rule registry.example.com/shop/** names no authority, so that no signature can be accepted"}}},
		"all of two, one is good":                   {rule(all, authority(0), authority(1)), list{unread, signed}, open},
		"all of three, one is good":                 {rule(all, authority(0), authority(1), authority(2)), list{unread, signed}, judged{Outcome: gate.ImageUntrusted, Deny: []string{"image needs a signature of every authority, and has none of key-1 and key-2"}}},
		"all of three, one is good, two not read":   {rule(all, authority(0), authority(1), authority(2)), list{unread, second, signed}, both},
		"two, one is good":                          {rule(two, authority(0), authority(1)), list{unread, signed}, open},
		"two of two, none is good":                  {rule(two, authority(0), authority(1)), list{unread}, judged{Outcome: gate.ImageUnsigned, Deny: []string{"image needs signatures by 2 different keys and has 0; none of key-0 and key-1"}}},
		"three, one is good, one gone, one unread":  {rule(three, authority(0), authority(1), gone), list{unread, signed}, judged{Outcome: gate.ImageError, Undecided: []string{goneReason + "; " + notRead}}},
		"more than there are authorities, not read": {rule(two, authority(0)), list{unread, second, signed}, judged{Outcome: gate.ImageUntrusted, Deny: []string{"image needs signatures by 2 different keys and has 1; none of any other authority"}}},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := judge(t, input(tc.rule, tc.held...)).diff(tc.want); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a child of an index", func(t *testing.T) {
		amd := claim(t, keys()[0], testkit.DigestOf("amd"))
		if diff := judge(t, byChildren(anyOf(0), list{amd}, list{unread})).diff(open); diff != "" {
			t.Error(diff)
		}
		if diff := judge(t, byChildren(anyOf(0), list{amd, unread}, list{claim(t, keys()[0], testkit.DigestOf("arm"))})).diff(verified); diff != "" {
			t.Error(diff)
		}
	})
}

// A scan that its author signed and that cannot be read may be the newest, and may have
// found something.
func TestCheck_AScanThatCannotBeReadIsNotOutvotedByAnOlderOne(t *testing.T) {
	hex := strings.TrimPrefix(webDigest, "sha256:")
	statement := func(predicateType, more string) string {
		return `{"_type":"` + statementV1 + `","subject":[{"digest":{"sha256":"` + hex + `"}}],"predicateType":"` + predicateType + `"` + more + `}`
	}
	texts := map[string]string{
		"a name twice":            statement(vuln, `,"predicate":{"a":1,"a":2}`),
		"deep nesting":            statement(vuln, `,"predicate":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)),
		"over the limit":          statement(vuln, `,"predicate":"`+strings.Repeat("x", limits.StatementBytes)+`"`),
		"a type twice":            statement(vuln, `,"predicateType":"`+provenance+`"`),
		"a type in other case":    strings.Replace(statement(vuln, ""), "predicateType", "PredicateType", 1),
		"nesting beyond any type": strings.Repeat("[", 20000) + strings.Repeat("]", 20000),
	}
	good := judged{Outcome: gate.ImageVerified, Authority: "key-0", Attestations: []string{vuln}}
	older, failed := keyStatement(t, keys()[0], false, webDigest, vuln, scan("2026-01-01T00:00:00Z")), keyStatement(t, keys()[0], false, webDigest, vuln, scan("2026-01-01T00:00:00Z", "CVE-1"))
	rule := demanding([]gate.Authority{authority(0)}, demand(vuln, noCritical))
	for title, text := range texts {
		for _, tag := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tag %v", title, tag), func(t *testing.T) {
				broken := signedPayload(t, tag, statementMediaType, text)
				got := judge(t, withAttestations(input(rule), older, broken))
				if got.Outcome != gate.ImageError || len(got.Undecided) != 1 || !strings.Contains(got.Undecided[0], "may be newer than those that can be read: one by authority key-0 cannot be read (") {
					t.Errorf("beside one that passes: %+v", got)
				}
				if got := judge(t, withAttestations(input(rule), failed, broken)); got.Outcome != gate.ImageUntrusted || len(got.Deny) != 1 || !strings.Contains(got.Deny[0], "CVE-1") {
					t.Errorf("beside one that fails: %+v", got)
				}
				if got := judge(t, withAttestations(input(rule), broken)); got.Outcome == gate.ImageVerified || got.Outcome == gate.ImageError {
					t.Errorf("alone: %+v", got)
				}
				theirs := rule
				theirs.Authorities = []gate.Authority{authority(1)}
				if diff := judge(t, withAttestations(input(theirs), keyStatement(t, keys()[1], tag, webDigest, vuln, scan("")), broken)).diff(judged{Outcome: gate.ImageVerified, Authority: "key-1", Attestations: []string{vuln}}); diff != "" {
					t.Errorf("by a stranger: %s", diff)
				}
			})
		}
	}
	other := signedPayload(t, false, statementMediaType, statement(provenance, `,"predicate":{"a":1,"a":2}`))
	if diff := judge(t, withAttestations(input(rule), older, other)).diff(good); diff != "" {
		t.Errorf("of another type: %s", diff)
	}
	build := demanding([]gate.Authority{authority(0)}, demand(provenance, ""))
	if got := judge(t, withAttestations(input(build), keyStatement(t, keys()[0], true, webDigest, provenance, nil), other)); got.Outcome != gate.ImageVerified {
		t.Errorf("where one that passes is enough: %+v", got)
	}
	broken := signedPayload(t, false, statementMediaType, texts["a name twice"])
	rule.Authorities = append([]gate.Authority{{Name: "gone", Unavailable: "not there"}}, authority(1), authority(2))
	if got := judge(t, withAttestations(input(rule), keyStatement(t, keys()[1], false, webDigest, vuln, scan("")), broken)); got.Outcome != gate.ImageError || !strings.Contains(strings.Join(got.Undecided, ""), "one by authority gone cannot be read") {
		t.Errorf("by one whose key is gone, perhaps: %+v", got)
	}
}

func TestCheck_AnIdentitysScanThatCannotBeReadIsNotOutvoted(t *testing.T) {
	text := `{"_type":"` + statementV1 + `","subject":[],"predicateType":"` + vuln + `","predicate":{"a":1,"a":2}}`
	for _, by := range []testkit.Identity{ci(), person("bob@example.com", ciIssuer)} {
		broken := gate.Signature{Format: gate.FormatBundle, Bundle: must[[]byte](t)(sigstores()[0].SignPayload(by, statementMediaType, []byte(text)))}
		in := withAttestations(input(demanding([]gate.Authority{keylessCI(t, nil)}, demand(vuln, ""))), statementBy(t, ci(), false, webDigest, vuln, scan("")), broken)
		want := gate.ImageVerified
		if by.Subject == ciSubject {
			want = gate.ImageError
		}
		if got := judge(t, in); got.Outcome != want {
			t.Errorf("by %s: %+v", by.Subject, got)
		}
	}
}
