package signature

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	cosignbundle "github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	prototrustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const (
	noCI      = "image has no signature that authority ci accepts"
	noLogWarn = "authority ci is accepted without a transparency log entry"
	noSCTWarn = "authority ci is accepted without a certificate log's promise (SCT)"
)

var (
	acceptedCI = judged{Outcome: gate.ImageVerified, Authority: "ci", Identity: ciName}
	refusedCI  = judged{Outcome: gate.ImageUntrusted, Deny: []string{noCI}}
)

func warned(messages ...string) judged {
	j := acceptedCI
	j.Warn = messages
	return j
}

func ended(r *protocommon.TimeRange) { r.End = timestamppb.New(r.Start.AsTime().Add(time.Minute)) }

func patterns(issuer, subject string) func(*gate.Keyless) {
	return func(k *gate.Keyless) { k.Issuer, k.Subject, k.IssuerRegExp, k.SubjectRegExp = "", "", issuer, subject }
}

func rootOf(t testing.TB, change func(*prototrustroot.TrustedRoot), without ...testkit.Part) func(*gate.Keyless) {
	raw := trustedRootJSON(t, change, without...)
	return func(k *gate.Keyless) { k.TrustedRoot = raw }
}

// lenient ignores logs, and trusts a root without some parts.
func lenient(log, sct bool) func(*gate.Keyless) {
	return func(k *gate.Keyless) { k.IgnoreTransparencyLog, k.IgnoreCertificateLog = log, sct }
}

// What is accepted must be the same in both formats; every case runs in both.
func TestCheck_KeylessAcceptsTheIdentityAndNothingElse(t *testing.T) {
	github, shop := `^https://token\.actions\.githubusercontent\.com$`, `^https://github\.com/shop/[^/]+/\.github/workflows/release\.yaml@refs/heads/main$`
	changed := func(f func(*x509.Certificate)) testkit.Identity { by := ci(); by.Change = f; return by }
	const log, sct, stamp = testkit.PartLog, testkit.PartCertificateLog, testkit.PartTimestamp
	for title, tc := range map[string]struct {
		gate func(*gate.Keyless)
		by   testkit.Identity
		want judged
		// remedy has to contain this.
		remedy string
	}{
		"exact issuer and subject":                      {nil, ci(), acceptedCI, ""},
		"patterns":                                      {patterns(github, shop), ci(), acceptedCI, ""},
		"a pattern of alternatives":                     {patterns(github, `^https://github\.com/shop/api/.*$|^https://github\.com/shop/web/.*$`), ci(), acceptedCI, ""},
		"an exact issuer and a pattern for the subject": {func(k *gate.Keyless) { k.Subject, k.SubjectRegExp = "", shop }, ci(), acceptedCI, ""},
		"a pattern that fits its beginning alone":       {patterns(github, `^https://github\.com/shop/web$`), ci(), refusedCI, "it is signed by " + ciName},
		"a pattern that fits its end alone":             {patterns(github, `^/web/\.github/workflows/release\.yaml@refs/heads/main$`), ci(), refusedCI, "it is signed by"},
		"another issuer":                                {nil, person(ciSubject, "https://gitlab.com"), refusedCI, "(https://gitlab.com)"},
		"another subject":                               {nil, person("https://github.com/evil/web/.github/workflows/release.yaml@refs/heads/main", ciIssuer), refusedCI, "github.com/evil"},
		"a subject in other case":                       {nil, person(strings.ToUpper(ciSubject), ciIssuer), refusedCI, "it is signed by"},
		"issuer and subject, swapped":                   {nil, person(ciIssuer, ciSubject), refusedCI, "it is signed by"},
		"an email address":                              {func(k *gate.Keyless) { k.Subject, k.Issuer = "bob@example.com", "https://accounts.example.com" }, person("bob@example.com", "https://accounts.example.com"), judged{Outcome: gate.ImageVerified, Authority: "ci", Identity: "bob@example.com (https://accounts.example.com)"}, ""},
		"no timestamp: the log has the time":            {nil, ci(stamp), acceptedCI, ""},
		"no log entry":                                  {nil, ci(log), refusedCI, "not enough verified log entries"},
		"no log entry, ignored":                         {lenient(true, false), ci(log), warned(noLogWarn), ""},
		"no log entry, and the other is ignored":        {lenient(false, true), ci(log), refusedCI, "not enough verified log entries"},
		"no log entry, ignored, but no time":            {lenient(true, true), ci(log, stamp), refusedCI, "not enough verified log entries"},
		"a log entry where none is asked for":           {lenient(true, true), ci(), acceptedCI, ""},
		"no promise of a certificate log":               {nil, ci(sct), refusedCI, "signed certificate timestamp"},
		"no promise, ignored":                           {lenient(false, true), ci(sct), warned(noSCTWarn), ""},
		"neither, both ignored":                         {lenient(true, true), ci(log, sct), warned(noSCTWarn, noLogWarn), ""},
		"neither, one ignored":                          {lenient(true, false), ci(log, sct), refusedCI, "not enough verified log entries"},
		"a root without logs":                           {rootOf(t, nil, log), ci(log), acceptedCI, ""},
		"a root without logs, and no time":              {rootOf(t, nil, log), ci(stamp), refusedCI, "threshold not met"},
		"a root without certificate logs":               {rootOf(t, nil, sct), ci(sct), acceptedCI, ""},
		"a root without timestamp authorities":          {rootOf(t, nil, stamp), ci(), acceptedCI, ""},
		"only a timestamp that nobody vouches for":      {func(k *gate.Keyless) { rootOf(t, nil, stamp)(k); lenient(true, true)(k) }, ci(log), refusedCI, ""},
		"an authority that had ended":                   {rootOf(t, func(r *prototrustroot.TrustedRoot) { ended(r.CertificateAuthorities[0].ValidFor) }), ci(), refusedCI, "leaf certificate verification failed"},
		"a log that had ended":                          {rootOf(t, func(r *prototrustroot.TrustedRoot) { ended(r.Tlogs[0].PublicKey.ValidFor) }), ci(), refusedCI, "not enough verified log entries"},
		"a certificate log that had ended":              {rootOf(t, func(r *prototrustroot.TrustedRoot) { ended(r.Ctlogs[0].PublicKey.ValidFor) }), ci(), refusedCI, "SCT"},
		"a timestamp authority that had ended": {func(k *gate.Keyless) {
			rootOf(t, func(r *prototrustroot.TrustedRoot) { ended(r.TimestampAuthorities[0].ValidFor) })(k)
			lenient(true, true)(k)
		}, ci(log), refusedCI, ""},
		"a certificate that had expired": {nil, changed(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-30*time.Minute), time.Now().Add(-20*time.Minute)
		}), refusedCI, "outside certificate validity"},
		"a certificate not valid yet": {nil, changed(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(20*time.Minute), time.Now().Add(30*time.Minute)
		}), refusedCI, "outside certificate validity"},
		"a certificate for something else": {nil, changed(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), refusedCI, "leaf certificate verification failed"},
		"a certificate for two names":      {nil, changed(func(c *x509.Certificate) { c.EmailAddresses = []string{"evil@example.com"} }), refusedCI, "its certificate is for 2 names"},
		"a certificate without a name":     {nil, changed(func(c *x509.Certificate) { c.URIs = nil }), refusedCI, "no Subject Alternative Name"},
		"a certificate without an issuer":  {nil, changed(func(c *x509.Certificate) { c.ExtraExtensions = nil }), refusedCI, "it is signed by " + ciSubject + " ()"},
	} {
		for format, make := range makers {
			t.Run(title+": "+format, func(t *testing.T) {
				got := judge(t, input(ruleFor(keylessCI(t, tc.gate)), make(t, sigstores()[0], tc.by, webDigest)))
				if diff := got.diff(tc.want); diff != "" {
					t.Error(diff)
				}
				if !strings.Contains(got.remedy, tc.remedy) {
					t.Errorf("the remedy is %q, want %q in it", got.remedy, tc.remedy)
				}
			})
		}
	}
}

func TestCheck_KeylessRefusesWhatWasTamperedWith(t *testing.T) {
	s := sigstores()[0]
	both := func(make maker, by testkit.Identity) gate.Signature { return make(t, s, by, webDigest) }
	tag := func(without ...testkit.Part) gate.Signature { return both(keylessTag, ci(without...)) }
	bundle := func(edit func(*protobundle.Bundle), without ...testkit.Part) gate.Signature {
		return editBundle(t, both(keylessBundle, ci(without...)), edit)
	}
	var other *protobundle.Bundle
	editBundle(t, keylessBundle(t, s, ci(), webDigest), func(b *protobundle.Bundle) { other = b })
	otherTag := tag()
	with := func(s gate.Signature, f func(*gate.Signature)) gate.Signature { f(&s); return s }
	for title, signature := range map[string]gate.Signature{
		"another instance, by tag":                   keylessTag(t, sigstores()[1], ci(), webDigest),
		"another instance, by bundle":                keylessBundle(t, sigstores()[1], ci(), webDigest),
		"another image, by tag":                      keylessTag(t, s, ci(), testkit.DigestOf("old")),
		"another image, by bundle":                   keylessBundle(t, s, ci(), testkit.DigestOf("old")),
		"a claim changed":                            swap(keylessTag(t, s, ci(), testkit.DigestOf("old")), testkit.DigestOf("old"), webDigest),
		"a promise changed, by tag":                  editRekor(t, tag(), func(b *cosignbundle.RekorBundle) { b.SignedEntryTimestamp[8] ^= 1 }),
		"a promise left out, by tag":                 editRekor(t, tag(), func(b *cosignbundle.RekorBundle) { b.SignedEntryTimestamp = nil }),
		"a log time changed, by tag":                 editRekor(t, tag(), func(b *cosignbundle.RekorBundle) { b.Payload.IntegratedTime-- }),
		"a log index changed, by tag":                editRekor(t, tag(), func(b *cosignbundle.RekorBundle) { b.Payload.LogIndex++ }),
		"an entry body that is no text, by tag":      editRekor(t, tag(), func(b *cosignbundle.RekorBundle) { b.Payload.Body = map[string]any{"kind": "hashedrekord"} }),
		"an entry of an unknown log, by tag":         editRekor(t, tag(), func(b *cosignbundle.RekorBundle) { b.Payload.LogID = strings.Repeat("0", 64) }),
		"an entry of another signature, by tag":      with(tag(), func(s *gate.Signature) { s.RekorBundle = otherTag.RekorBundle }),
		"a certificate of another signature, by tag": with(tag(), func(s *gate.Signature) { s.Certificate = otherTag.Certificate }),
		"a certificate of another authority, by tag": with(tag(), func(s *gate.Signature) {
			s.Certificate = keylessTag(t, sigstores()[1], ci(), webDigest).Certificate
		}),
		"two certificates, by tag":                   with(tag(), func(s *gate.Signature) { s.Certificate = append(s.Certificate, otherTag.Certificate...) }),
		"a timestamp of another signature, by tag":   with(tag(testkit.PartLog), func(s *gate.Signature) { s.Timestamp = otherTag.Timestamp }),
		"a timestamp that is none, by tag":           with(tag(testkit.PartLog), func(s *gate.Signature) { s.Timestamp = []byte(`{"SignedRFC3161Timestamp":"MDA="}`) }),
		"a version 2 entry has no promise for a tag": both(keylessTag, testkit.Identity{Subject: ciSubject, Issuer: ciIssuer, Tiles: true}),
		"a promise changed, by bundle":               bundle(func(b *protobundle.Bundle) { promise(b)[8] ^= 1 }),
		"a log time changed, by bundle":              bundle(func(b *protobundle.Bundle) { b.VerificationMaterial.TlogEntries[0].IntegratedTime-- }),
		"an inclusion proof changed, by bundle":      bundle(func(b *protobundle.Bundle) { b.VerificationMaterial.TlogEntries[0].InclusionProof.RootHash[0] ^= 1 }),
		"a checkpoint changed, by bundle": bundle(func(b *protobundle.Bundle) {
			c := b.VerificationMaterial.TlogEntries[0].InclusionProof.Checkpoint
			c.Envelope = strings.Replace(c.Envelope, "\n1\n", "\n2\n", 1)
		}),
		"an entry of another signature, by bundle": bundle(func(b *protobundle.Bundle) {
			b.VerificationMaterial.TlogEntries = other.VerificationMaterial.TlogEntries
		}),
		"the same entry twice, by bundle": bundle(func(b *protobundle.Bundle) {
			m := b.VerificationMaterial
			m.TlogEntries = append(m.TlogEntries, m.TlogEntries[0])
		}),
		"a certificate of another signature, by bundle": bundle(func(b *protobundle.Bundle) { b.VerificationMaterial.Content = other.VerificationMaterial.Content }),
		"another's signature, by bundle":                bundle(func(b *protobundle.Bundle) { b.GetDsseEnvelope().Signatures = other.GetDsseEnvelope().Signatures }),
		"two signatures in the envelope, by bundle": bundle(func(b *protobundle.Bundle) {
			e := b.GetDsseEnvelope()
			e.Signatures = append(e.Signatures, other.GetDsseEnvelope().Signatures...)
		}),
		"no signature in the envelope, by bundle": bundle(func(b *protobundle.Bundle) { b.GetDsseEnvelope().Signatures = nil }),
		"another payload type, by bundle":         bundle(func(b *protobundle.Bundle) { b.GetDsseEnvelope().PayloadType = "text/plain" }),
		"a timestamp of another signature, by bundle": bundle(func(b *protobundle.Bundle) {
			b.VerificationMaterial.TimestampVerificationData = other.VerificationMaterial.TimestampVerificationData
		}, testkit.PartLog),
		"a certificate in place of which a key is named": bundle(func(b *protobundle.Bundle) {
			b.VerificationMaterial.Content = &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{Hint: "x"}}
		}),
		"a version of tomorrow, by bundle": bundle(func(b *protobundle.Bundle) { b.MediaType = "application/vnd.dev.sigstore.bundle.v0.4+json" }),
		"a key's signature, by tag":        claim(t, keys()[0], webDigest),
		"a key's signature, by bundle":     signatureBundle(t, keys()[0], webDigest),
		"a key's signature with the certificate of another": with(claim(t, keys()[0], webDigest), func(s *gate.Signature) {
			s.Certificate, s.RekorBundle, s.Timestamp = otherTag.Certificate, otherTag.RekorBundle, otherTag.Timestamp
		}),
	} {
		t.Run(title, func(t *testing.T) {
			// Nothing is ignored that a tampered entry could hide behind, except where the
			// entry is not what was changed.
			got := judge(t, input(ruleFor(keylessCI(t, func(k *gate.Keyless) {
				k.IgnoreTransparencyLog = strings.Contains(title, "timestamp")
			})), signature))
			if diff := got.diff(refusedCI); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func promise(b *protobundle.Bundle) []byte {
	return b.VerificationMaterial.TlogEntries[0].InclusionPromise.SignedEntryTimestamp
}

func TestCheck_KeylessTakesEntriesOfTheSecondVersionOfTheLog(t *testing.T) {
	tiles := func(without ...testkit.Part) testkit.Identity { by := ci(without...); by.Tiles = true; return by }
	other := tiles()
	other.Logged = []byte("harmless")
	log := func(r *prototrustroot.TrustedRoot) *prototrustroot.TransparencyLogInstance { return r.Tlogs[1] }
	for title, tc := range map[string]struct {
		root func(*prototrustroot.TrustedRoot)
		by   testkit.Identity
		want judged
	}{
		"with a timestamp":            {nil, tiles(), acceptedCI},
		"without a time":              {nil, tiles(testkit.PartTimestamp), refusedCI},
		"about other content":         {nil, other, refusedCI},
		"of a log under another name": {func(r *prototrustroot.TrustedRoot) { log(r).BaseUrl = "https://other.invalid" }, tiles(), refusedCI},
		"of a log without a name":     {func(r *prototrustroot.TrustedRoot) { log(r).BaseUrl = "" }, tiles(), refusedCI},
		"of a log that is not listed": {func(r *prototrustroot.TrustedRoot) { r.Tlogs = r.Tlogs[:1] }, tiles(), refusedCI},
		"of a log that had ended":     {func(r *prototrustroot.TrustedRoot) { ended(log(r).PublicKey.ValidFor) }, tiles(), refusedCI},
	} {
		t.Run(title, func(t *testing.T) {
			got := judge(t, input(ruleFor(keylessCI(t, rootOf(t, tc.root))), keylessBundle(t, sigstores()[0], tc.by, webDigest)))
			if diff := got.diff(tc.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A weaker signature beside a good one neither spoils it nor is hidden by it.
func TestCheck_KeylessWarnsOnlyOfWhatCounted(t *testing.T) {
	s := sigstores()[0]
	loggedNot, logged := keylessBundle(t, s, ci(testkit.PartLog), webDigest), keylessTag(t, s, ci(), webDigest)
	authority := keylessCI(t, lenient(true, false))
	for title, tc := range map[string]struct {
		signatures []gate.Signature
		want       judged
	}{
		"the weak one alone": {[]gate.Signature{loggedNot}, warned(noLogWarn)},
		"both":               {[]gate.Signature{loggedNot, logged}, acceptedCI},
		"the other way":      {[]gate.Signature{logged, loggedNot}, acceptedCI},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := judge(t, input(ruleFor(authority), tc.signatures...)).diff(tc.want); diff != "" {
				t.Error(diff)
			}
		})
	}
	v := gate.NewChain(New()).Decide(t.Context(), input(ruleFor(authority), loggedNot))
	if v.Outcome != gate.OutcomeWarn || len(v.Warnings) != 1 {
		t.Errorf("the verdict does not show it: %s", v.Canonical())
	}
}

func TestCheck_KeysAndIdentitiesDoNotStandInForEachOther(t *testing.T) {
	s := sigstores()[0]
	key := authority(0)
	for title, tc := range map[string]struct {
		rule       gate.ImageRule
		signatures []gate.Signature
		want       judged
	}{
		"a key is asked for, an identity signed": {ruleFor(key), []gate.Signature{keylessTag(t, s, ci(), webDigest), keylessBundle(t, s, ci(), webDigest)},
			judged{Outcome: gate.ImageUntrusted, Deny: []string{"image has no signature that authority key-0 accepts"}}},
		"all of both, both signed": {gate.ImageRule{Require: gate.Requirement{All: true}, Authorities: []gate.Authority{key, keylessCI(t, nil)}},
			[]gate.Signature{claim(t, keys()[0], webDigest), keylessBundle(t, s, ci(), webDigest)},
			judged{Outcome: gate.ImageVerified, Authority: "ci,key-0", Identity: ciName}},
		"all of both, one signed": {gate.ImageRule{Require: gate.Requirement{All: true}, Authorities: []gate.Authority{key, keylessCI(t, nil)}},
			[]gate.Signature{claim(t, keys()[0], webDigest)},
			judged{Outcome: gate.ImageUntrusted, Deny: []string{"image needs a signature of every authority, and has none of ci"}}},
		"an authority with both": {ruleFor(gate.Authority{Name: "both", PublicKeyPEM: key.PublicKeyPEM, Keyless: keylessCI(t, nil).Keyless}),
			[]gate.Signature{claim(t, keys()[0], webDigest)},
			judged{Outcome: gate.ImageError, Undecided: []string{"the identity of authority both: both a key and an identity are given: make two authorities of them"}}},
		"an identity that is none": {ruleFor(keylessCI(t, func(k *gate.Keyless) { k.Issuer = "" })), []gate.Signature{keylessTag(t, s, ci(), webDigest)},
			judged{Outcome: gate.ImageError, Undecided: []string{"the identity of authority ci: neither issuer nor issuerRegExp is given, so that anybody could sign: name the issuer"}}},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := judge(t, input(tc.rule, tc.signatures...)).diff(tc.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Two of three means two people, whatever patterns they fit.
func TestCheck_CountsSignersAndNotPatterns(t *testing.T) {
	s := sigstores()[0]
	const issuer = "https://accounts.example.com"
	anyone := func(name string) gate.Authority {
		a := keylessCI(t, patterns(`^https://accounts\.example\.com$`, `^[a-z]+@example\.com$`))
		a.Name = name
		return a
	}
	alice := keylessCI(t, func(k *gate.Keyless) { k.Issuer, k.Subject = issuer, "alice@example.com" })
	alice.Name = "alice"
	rule := gate.ImageRule{Require: gate.Requirement{Count: 2}, Authorities: []gate.Authority{anyone("staff"), anyone("reviewers"), alice}}
	by := func(people ...string) []gate.Signature {
		var out []gate.Signature
		for _, p := range people {
			out = append(out, keylessBundle(t, s, person(p+"@example.com", issuer), webDigest))
		}
		return out
	}
	if got := judge(t, input(rule, by("alice", "alice")...)); got.Outcome != gate.ImageUntrusted ||
		got.Deny[0] != "image needs signatures by 2 different signers and has 1; none of any other authority" {
		t.Errorf("alice twice: %+v", got)
	}
	got := judge(t, input(rule, by("bob", "alice")...))
	want := judged{Outcome: gate.ImageVerified, Authority: "alice,reviewers,staff", Identity: "alice@example.com (" + issuer + "),bob@example.com (" + issuer + ")"}
	if diff := got.diff(want); diff != "" {
		t.Error(diff)
	}
	rule.Require, rule.Authorities = gate.Requirement{All: true}, rule.Authorities[:2]
	shared := judge(t, input(rule, by("alice", "alice")...))
	if diff := shared.diff(judged{Outcome: gate.ImageUntrusted, Deny: []string{
		"image needs a signature of every authority, each by another signer, and reviewers and staff are satisfied by 1 signer alone"}}); diff != "" || !strings.Contains(shared.remedy, "somebody else") {
		t.Errorf("all, by one person: %s %s", diff, shared.remedy)
	}
	if diff := judge(t, input(rule, by("bob", "alice")...)).diff(judged{Outcome: gate.ImageVerified, Authority: "reviewers,staff", Identity: want.Identity}); diff != "" {
		t.Errorf("all, by two: %s", diff)
	}
	mayBeBobs := append(by("alice"), unreadPiece(testkit.PredicateSign))
	if diff := judge(t, input(rule, mayBeBobs...)).diff(judged{Outcome: gate.ImageError, Undecided: []string{notRead}}); diff != "" {
		t.Errorf("all, by one, and something was not read: %s", diff)
	}
}

func TestDistinct_IsTheLargestNumberOfPairs(t *testing.T) {
	set := func(names string) map[string]bool {
		out := map[string]bool{}
		for _, n := range strings.Fields(names) {
			out[n] = true
		}
		return out
	}
	for title, tc := range map[string]struct {
		authorities []string
		want        int
		shared      []int
	}{
		"none":                              {nil, 0, nil},
		"one key twice":                     {[]string{"a", "a"}, 1, []int{0, 1}},
		"one key twice, beside another":     {[]string{"b", "a", "c", "a"}, 3, []int{1, 3}},
		"each its own":                      {[]string{"a", "b", "c"}, 3, nil},
		"a pattern gives way":               {[]string{"a b", "a"}, 2, nil},
		"a chain of them gives way":         {[]string{"a b", "b c", "a", "b"}, 3, []int{0, 2, 3}},
		"many signers for one authority":    {[]string{"a b c d"}, 1, nil},
		"more signers, too few authorities": {[]string{"a", "a", "b c"}, 2, []int{0, 1}},
	} {
		t.Run(title, func(t *testing.T) {
			var sets []map[string]bool
			for _, a := range tc.authorities {
				sets = append(sets, set(a))
			}
			got, shared := distinct(sets)
			slices.Sort(shared)
			if got != tc.want || !slices.Equal(shared, tc.shared) {
				t.Errorf("got %d, shared by %v", got, shared)
			}
		})
	}
}

func TestValidateKeyless_SaysFieldAndRemedy(t *testing.T) {
	good := func(change func(*gate.Keyless)) gate.Keyless { return *keylessCI(t, change).Keyless }
	subject := func(pattern string) gate.Keyless {
		return good(func(k *gate.Keyless) { k.Subject, k.SubjectRegExp = "", pattern })
	}
	root := func(change func(*prototrustroot.TrustedRoot), without ...testkit.Part) gate.Keyless {
		return good(rootOf(t, change, without...))
	}
	const everybody = "accepts just anybody"
	for title, tc := range map[string]struct {
		keyless gate.Keyless
		want    string
	}{
		"no issuer":                     {good(func(k *gate.Keyless) { k.Issuer = "" }), "neither issuer nor issuerRegExp is given, so that anybody could sign: name the issuer"},
		"no subject":                    {good(func(k *gate.Keyless) { k.Subject = "" }), "neither subject nor subjectRegExp is given"},
		"both":                          {good(func(k *gate.Keyless) { k.SubjectRegExp = "^a$" }), "subject and subjectRegExp are both given: keep one of them"},
		"no anchors":                    {subject("shop"), `subjectRegExp "shop" is not anchored: start it with ^ and end it with $`},
		"no end":                        {subject("^https://github.com/shop/"), "is not anchored"},
		"no beginning":                  {subject("/shop/web$"), "is not anchored"},
		"anchors of one alternative":    {subject("^a|b$"), "is not anchored"},
		"an anchor that is a character": {subject(`^a\$`), "is not anchored"},
		"anchors of lines":              {subject(`(?m)^a$`), "is not anchored"},
		"no pattern":                    {subject("^("), "is not an RE2 pattern"},
		"a back reference":              {subject(`^(a)\1$`), "is not an RE2 pattern"},
		"everything":                    {subject("^.*$"), everybody},
		"everything that is something":  {subject("^.+$"), everybody},
		"everything, otherwise":         {subject(`^[\s\S]*$`), everybody},
		"everything, as an alternative": {subject("^(https://github.com/shop/web|.*)$"), everybody},
		"everything without a space":    {subject(`^\S+$`), everybody},
		"every URL":                     {subject("^https?://.*$"), everybody},
		"every address":                 {subject("^.*@.*$"), everybody},
		"every workflow":                {subject(`^.*/\.github/workflows/.*$`), everybody},
		"every issuer":                  {good(func(k *gate.Keyless) { k.Issuer, k.IssuerRegExp = "", "^https://.*$" }), `issuerRegExp "^https://.*$" accepts just anybody`},
		"a pattern of megabytes":        {subject("^" + strings.Repeat("a", 2000) + "$"), "limits.PatternBytes"},
		"no root":                       {good(func(k *gate.Keyless) { k.TrustedRoot = nil }), "trustedRoot is empty: give trusted_root.json"},
		"a root that is a certificate":  {good(func(k *gate.Keyless) { k.TrustedRoot = []byte("-----BEGIN CERTIFICATE-----") }), "trustedRoot cannot be used"},
		"a root of another kind":        {root(func(r *prototrustroot.TrustedRoot) { r.MediaType = "application/json" }), "unsupported TrustedRoot media type"},
		"a root of megabytes":           {good(func(k *gate.Keyless) { k.TrustedRoot = []byte(strings.Repeat(" ", 1<<20)) }), "limits.TrustedRootBytes"},
		"a root without authorities":    {root(func(r *prototrustroot.TrustedRoot) { r.CertificateAuthorities = nil }), "it lists no certificateAuthorities"},
		"a root without a time":         {root(nil, testkit.PartLog, testkit.PartTimestamp), "neither tlogs nor timestampAuthorities"},
		"a root of a hundred logs": {root(func(r *prototrustroot.TrustedRoot) {
			for len(r.Tlogs) < 100 {
				r.Tlogs = append(r.Tlogs, r.Tlogs[0])
			}
		}), "limits.TrustedRootEntries"},
		"a chain of a hundred": {root(func(r *prototrustroot.TrustedRoot) {
			c := r.TimestampAuthorities[0].CertChain
			for len(c.Certificates) < 100 {
				c.Certificates = append(c.Certificates, c.Certificates[0])
			}
		}), "limits.CertificateChain"},
	} {
		t.Run(title, func(t *testing.T) {
			if err := ValidateKeyless(tc.keyless); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	for _, ok := range []gate.Keyless{good(nil), subject(`^https://github\.com/shop/.*$`), subject(`\A[a-z.]+@example\.com\z`), subject("^a$|^b$"), subject("^(a|b)$"), subject("(^a$)")} {
		if err := ValidateKeyless(ok); err != nil {
			t.Error(err)
		}
	}
}

// paeSum is the SHA-256 of what a signature over a statement is over.
func paeSum(statement string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "DSSEv1 28 application/vnd.in-toto+json %d %s", len(statement), statement))
	return sum[:]
}

func TestLoggedContent_IsComparedWithWhatWasSigned(t *testing.T) {
	sum := "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03" // of "hello\n"
	tile := base64.StdEncoding.EncodeToString([]byte("X\x91\xb5\xb5\"\xd5\xdf\x08m\x0f\xf0\xb1\x10\xfb\xd9\xd2\x1b\xb4\xfcqc\xaf4\xd0\x82\x86\xa2\xe8F\xf6\xbe\x03"))
	claim, payload := &stored{claim: []byte("hello\n")}, &stored{payload: []byte("hello\n")}
	other := &stored{payload: []byte("hello"), claim: nil}
	for title, tc := range map[string]struct {
		s    *stored
		body string
		want string
	}{
		"hashedrekord 0.0.1":                         {claim, `{"kind":"hashedrekord","apiVersion":"0.0.1","spec":{"data":{"hash":{"algorithm":"sha256","value":"` + sum + `"}}}}`, ""},
		"dsse 0.0.1":                                 {payload, `{"kind":"dsse","apiVersion":"0.0.1","spec":{"payloadHash":{"algorithm":"sha256","value":"` + sum + `"}}}`, ""},
		"intoto 0.0.2":                               {payload, `{"kind":"intoto","apiVersion":"0.0.2","spec":{"content":{"payloadHash":{"algorithm":"sha256","value":"` + sum + `"}}}}`, ""},
		"hashedrekord 0.0.2":                         {claim, `{"kind":"hashedrekord","apiVersion":"0.0.2","spec":{"hashedRekordV002":{"data":{"algorithm":"SHA2_256","digest":"` + tile + `"}}}}`, ""},
		"hashedrekord 0.0.2 of an envelope":          {&stored{payload: []byte("a")}, `{"kind":"hashedrekord","apiVersion":"0.0.2","spec":{"hashedRekordV002":{"data":{"algorithm":"SHA2_256","digest":"` + base64.StdEncoding.EncodeToString(paeSum("a")) + `"}}}}`, ""},
		"dsse 0.0.2, which no log takes any more":    {payload, `{"kind":"dsse","apiVersion":"0.0.2","spec":{"dsseV002":{"payloadHash":{"algorithm":"SHA2_256","digest":"` + tile + `"}}}}`, "not supported"},
		"of another payload":                         {other, `{"kind":"dsse","apiVersion":"0.0.1","spec":{"payloadHash":{"algorithm":"sha256","value":"` + sum + `"}}}`, "about other content"},
		"of the bytes where the envelope was signed": {payload, `{"kind":"hashedrekord","apiVersion":"0.0.1","spec":{"data":{"hash":{"algorithm":"sha256","value":"` + sum + `"}}}}`, "about other content"},
		"no hash":            {payload, `{"kind":"dsse","apiVersion":"0.0.1","spec":{}}`, "hash algorithm"},
		"an empty hash":      {payload, `{"kind":"dsse","apiVersion":"0.0.1","spec":{"payloadHash":{"algorithm":"sha256"}}}`, "about other content"},
		"a weak hash":        {payload, `{"kind":"dsse","apiVersion":"0.0.1","spec":{"payloadHash":{"algorithm":"sha1","value":"aa"}}}`, "hash algorithm"},
		"no hexadecimal":     {payload, `{"kind":"dsse","apiVersion":"0.0.1","spec":{"payloadHash":{"algorithm":"sha256","value":"xx"}}}`, "not hexadecimal"},
		"another kind":       {payload, `{"kind":"rpm","apiVersion":"0.0.1","spec":{}}`, "not supported"},
		"a hash given twice": {payload, `{"kind":"dsse","apiVersion":"0.0.1","spec":{"payloadHash":{"algorithm":"sha256","value":"00","value":"` + sum + `"}}}`, "twice"},
		"no JSON":            {payload, `{`, "reading the log entry"},
	} {
		t.Run(title, func(t *testing.T) {
			err := tc.s.loggedContent([]byte(tc.body))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
