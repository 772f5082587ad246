package signature

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	prototrustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// What the right key signed is refused where it can be read in two ways.
func TestCheck_RefusesStatementsThatCanBeReadInTwoWays(t *testing.T) {
	hex := strings.TrimPrefix(webDigest, "sha256:")
	other := strings.TrimPrefix(testkit.DigestOf("old"), "sha256:")
	subject := `"subject":[{"digest":{"sha256":"` + hex + `"}}]`
	const kind, predicate = `"_type":"https://in-toto.io/Statement/v1"`, `"predicateType":"https://slsa.dev/provenance/v1"`
	whole := func(parts ...string) string { return "{" + strings.Join(parts, ",") + "}" }
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprintf(`{"digest":{"sha256":"%064d"}}`, i)
	}
	for title, tc := range map[string]struct {
		text string
		ok   bool
	}{
		"as it should be":                   {whole(kind, subject, predicate, `"predicate":{}`), true},
		"v0.1":                              {whole(`"_type":"https://in-toto.io/Statement/v0.1"`, subject, predicate), true},
		"without a predicate":               {whole(kind, subject, predicate), true},
		"with a field of tomorrow":          {whole(kind, subject, predicate, `"x":1`), true},
		"several subjects":                  {whole(kind, `"subject":[{"name":"a","digest":{"sha256":"`+other+`"}},{"digest":{"gitCommit":"x y"}},{"digest":{"sha256":"`+hex+`","sha512":"00"}}]`, predicate), true},
		"a subject by its name":             {whole(kind, `"subject":[{"name":"`+webDigest+`","digest":{"sha256":"`+other+`"}}]`, predicate), false},
		"a subject by another digest":       {whole(kind, `"subject":[{"digest":{"sha512":"`+hex+`"}}]`, predicate), false},
		"no subject":                        {whole(kind, `"subject":[]`, predicate), false},
		"null for a subject":                {whole(kind, `"subject":null`, predicate), false},
		"subjects that are none":            {whole(kind, `"subject":"`+webDigest+`"`, predicate), false},
		"two thousand subjects":             {whole(kind, `"subject":[`+strings.Join(many, ",")+`,{"digest":{"sha256":"`+hex+`"}}]`, predicate), true},
		"a subject twice":                   {whole(kind, `"subject":[{"digest":{"sha256":"`+other+`"}}]`, subject, predicate), false},
		"a digest twice":                    {whole(kind, `"subject":[{"digest":{"sha256":"`+other+`","sha256":"`+hex+`"}}]`, predicate), false},
		"a digest twice in other case":      {whole(kind, `"subject":[{"digest":{"sha256":"`+hex+`"},"Digest":{"sha256":"`+other+`"}}]`, predicate), false},
		"a digest in other case alone":      {whole(kind, `"subject":[{"Digest":{"sha256":"`+hex+`"}}]`, predicate), false},
		"a type twice":                      {whole(kind, subject, `"predicateType":"https://example.com/x"`, predicate), false},
		"a type twice, in escapes":          {whole(kind, subject, `"predicate\u0054ype":"https://example.com/x"`, predicate), false},
		"a type twice, in other case":       {whole(kind, subject, predicate, `"PredicateType":"https://example.com/x"`), false},
		"a type under protobuf's name":      {whole(kind, subject, `"predicate_type":"https://slsa.dev/provenance/v1"`), false},
		"a result twice":                    {whole(kind, subject, predicate, `"predicate":{"result":"PASSED","result":"FAILED"}`), false},
		"a result twice, deep inside":       {whole(kind, subject, predicate, `"predicate":{"a":[{"b":{"result":"PASSED","result":"FAILED"}}]}`), false},
		"a predicate twice":                 {whole(kind, subject, predicate, `"predicate":{"result":"PASSED"}`, `"predicate":{"result":"FAILED"}`), false},
		"names in other case in predicates": {whole(kind, subject, predicate, `"predicate":{"PATH":1,"path":2}`), true},
		"a statement after it":              {whole(kind, subject, predicate) + whole(kind, subject, predicate), false},
		"a letter after it":                 {whole(kind, subject, predicate) + "x", false},
		"cut off":                           {whole(kind, subject, predicate)[:100], false},
		"not UTF-8":                         {whole(kind, subject, predicate, "\"predicate\":{\"a\xff\":1}"), false},
		"another kind of statement":         {whole(`"_type":"https://example.com/Statement/v1"`, subject, predicate), false},
		"no kind of statement":              {whole(subject, predicate), false},
		"a kind that is no text":            {whole(`"_type":1`, subject, predicate), false},
		"a list":                            {"[" + whole(kind, subject, predicate) + "]", false},
		"deep nesting":                      {whole(kind, subject, predicate, `"predicate":`+strings.Repeat("[", 500)+strings.Repeat("]", 500)), false},
		"a megabyte of predicate":           {whole(kind, subject, predicate, `"predicate":"`+strings.Repeat("x", 1<<20)+`"`), true},
		"more than the limit":               {whole(kind, subject, predicate, `"predicate":"`+strings.Repeat("x", limits.StatementBytes)+`"`), false},
	} {
		for _, tag := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tag %v", title, tag), func(t *testing.T) {
				held := signedPayload(t, tag, statementMediaType, tc.text)
				got := judge(t, withAttestations(input(demanding([]gate.Authority{authority(0)}, demand(provenance, ""))), held))
				if (got.Outcome == gate.ImageVerified) != tc.ok || len(got.Undecided) > 0 {
					t.Errorf("got %+v", got)
				}
			})
		}
	}
}

// signedPayload has the first key sign any payload as an attestation.
func signedPayload(t testing.TB, tag bool, payloadType, text string) gate.Signature {
	t.Helper()
	k := keys()[0]
	if tag {
		return gate.Signature{Format: gate.FormatAttestationTag, Payload: must[[]byte](t)(k.SignEnvelope(payloadType, []byte(text)))}
	}
	return gate.Signature{Format: gate.FormatBundle, Bundle: must[[]byte](t)(k.SignPayload(payloadType, []byte(text)))}
}

func TestCheck_RefusesEnvelopesThatCanBeReadInTwoWays(t *testing.T) {
	good := keyStatement(t, keys()[0], true, webDigest, provenance, nil)
	theirs := keyStatement(t, keys()[1], true, webDigest, provenance, nil)
	edit := func(f func(map[string]any)) gate.Signature {
		var e, other map[string]any
		if err := json.Unmarshal(good.Payload, &e); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(theirs.Payload, &other); err != nil {
			t.Fatal(err)
		}
		e["theirs"] = other["signatures"].([]any)[0]
		f(e)
		delete(e, "theirs")
		return gate.Signature{Format: gate.FormatAttestationTag, Payload: must[[]byte](t)(json.Marshal(e))}
	}
	text := func(from, to string) gate.Signature {
		s := swap(good, from, to)
		if string(s.Payload) == string(good.Payload) {
			t.Fatalf("no %s in the envelope", from)
		}
		return s
	}
	statement := must[[]byte](t)(json.Marshal(map[string]any{
		"_type": statementV1, "predicateType": provenance, "subject": []any{map[string]any{"digest": map[string]string{"sha256": strings.TrimPrefix(webDigest, "sha256:")}}},
	}))
	for title, tc := range map[string]struct {
		held gate.Signature
		ok   bool
	}{
		"as it should be":               {good, true},
		"two signatures, ours first":    {edit(func(e map[string]any) { e["signatures"] = append(e["signatures"].([]any), e["theirs"]) }), false},
		"two signatures, ours last":     {edit(func(e map[string]any) { e["signatures"] = append([]any{e["theirs"]}, e["signatures"].([]any)...) }), false},
		"no signature":                  {edit(func(e map[string]any) { e["signatures"] = []any{} }), false},
		"another's signature":           {edit(func(e map[string]any) { e["signatures"] = []any{e["theirs"]} }), false},
		"a payload twice":               {text(`"payload":`, `"payload":"e30=","payload":`), false},
		"a payload twice in other case": {text(`"payload":`, `"Payload":"e30=","payload":`), false},
		"another type, not signed":      {text(statementMediaType, "text/plain"), false},
		"another type, signed":          {signedPayload(t, true, "text/plain", string(statement)), false},
		"another type, signed, bundle":  {signedPayload(t, false, "text/plain", string(statement)), false},
		"a payload that is no base64":   {edit(func(e map[string]any) { e["payload"] = "%%%" }), false},
		"no JSON":                       {gate.Signature{Format: gate.FormatAttestationTag, Payload: []byte("{")}, false},
		"a key and a certificate in one bundle": {gate.Signature{Format: gate.FormatBundle, Bundle: []byte(strings.Replace(
			string(keyStatement(t, keys()[0], false, webDigest, provenance, nil).Bundle), `"publicKey":`, `"certificate":{"rawBytes":"AA=="},"publicKey":`, 1))}, false},
	} {
		t.Run(title, func(t *testing.T) {
			got := judge(t, withAttestations(input(demanding([]gate.Authority{authority(0)}, demand(provenance, ""))), tc.held))
			if (got.Outcome == gate.ImageVerified) != tc.ok || len(got.Undecided) > 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestCheck_RefusesClaimsThatCanBeReadInTwoWays(t *testing.T) {
	const kind = `"type":"cosign container image signature"`
	image := func(digest string) string { return `"image":{"docker-manifest-digest":"` + digest + `"}` }
	old := testkit.DigestOf("old")
	for title, tc := range map[string]struct {
		text string
		ok   bool
	}{
		"as it should be":               {`{"critical":{` + kind + `,` + image(webDigest) + `}}`, true},
		"a digest twice":                {`{"critical":{` + kind + `,` + image(old) + `,` + image(webDigest) + `}}`, false},
		"a digest twice, in other case": {`{"critical":{` + kind + `,"image":{"docker-manifest-digest":"` + old + `","Docker-Manifest-Digest":"` + webDigest + `"}}}`, false},
		"two claims":                    {`{"critical":{` + kind + `,` + image(webDigest) + `}}{}`, false},
		"no type":                       {`{"critical":{` + image(webDigest) + `}}`, false},
	} {
		t.Run(title, func(t *testing.T) {
			if got := judge(t, input(anyOf(0), signedClaim(t, keys()[0], tc.text))); (got.Outcome == gate.ImageVerified) != tc.ok {
				t.Errorf("got %+v", got)
			}
			signed := fromTag(gate.FormatCosignTag, must[testkit.TagSignature](t)(sigstores()[0].SignClaim(ci(), []byte(tc.text))))
			if got := judge(t, input(ruleFor(keylessCI(t, nil)), signed)); (got.Outcome == gate.ImageVerified) != tc.ok {
				t.Errorf("by identity: got %+v", got)
			}
		})
	}
}

// Ten thousand signatures that look right until they are verified must not hold up a
// decision beyond its time.
func TestCheck_StopsAmongTenThousandSignatures(t *testing.T) {
	const many = 10000
	junk := make([]gate.Signature, 0, many)
	// Of another instance, in the name that the Gate trusts.
	one := keylessTag(t, sigstores()[1], ci(), webDigest)
	for range many {
		junk = append(junk, one)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	got := judgeWithin(t, ctx, input(ruleFor(keylessCI(t, nil), authority(0)), junk...))
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %s to stop", took)
	}
	if len(got.Undecided) != 1 || len(got.Deny) > 0 || got.Outcome != gate.ImageError {
		t.Errorf("got %+v", got)
	}
}

// An annotation that sigstore's own code panics on.
func TestCheck_SurvivesWhatPanicsElsewhere(t *testing.T) {
	good := keylessTag(t, sigstores()[0], ci(), webDigest)
	entries := map[string]string{
		"a body that is no text":         `{"SignedEntryTimestamp":"AA==","Payload":{"body":{},"integratedTime":1,"logIndex":0,"logID":"00"}}`,
		"a body that is no base64":       `{"SignedEntryTimestamp":"AA==","Payload":{"body":"%","integratedTime":1,"logIndex":0,"logID":"00"}}`,
		"an empty body":                  `{"SignedEntryTimestamp":"AA==","Payload":{"body":"","integratedTime":1,"logIndex":0,"logID":"00"}}`,
		"a body without a specification": `{"SignedEntryTimestamp":"AA==","Payload":{"body":"eyJraW5kIjoiZHNzZSIsImFwaVZlcnNpb24iOiIwLjAuMSJ9","integratedTime":1,"logIndex":0,"logID":"00"}}`,
		"a negative index":               `{"SignedEntryTimestamp":"AA==","Payload":{"body":"e30=","integratedTime":1,"logIndex":-1,"logID":"00"}}`,
		"null":                           `null`,
	}
	for title, entry := range entries {
		t.Run(title, func(t *testing.T) {
			s := good
			s.RekorBundle = []byte(entry)
			if diff := judge(t, input(ruleFor(keylessCI(t, nil)), s)).diff(refusedCI); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An instance that is not ours made this: sigstore-go's own for tests. It has no
// certificate log.
func TestIdentity_AcceptsWhatSigstoreGosOwnInstanceMakes(t *testing.T) {
	virtual := must[*ca.VirtualSigstore](t)(ca.NewVirtualSigstore())
	text := `{"_type":"` + statementV1 + `","predicateType":"` + provenance + `","subject":[{"digest":{"sha256":"` + strings.TrimPrefix(webDigest, "sha256:") + `"}}],"predicate":{}}`
	entity := must[*ca.TestEntity](t)(virtual.Attest("bob@example.com", ciIssuer, []byte(text)))
	content := must[verify.VerificationContent](t)(entity.VerificationContent())
	signed := must[verify.SignatureContent](t)(entity.SignatureContent())
	s := &stored{certificate: content.Certificate()}
	raw := signed.EnvelopeContent().RawEnvelope()
	if err := s.setEnvelope([]byte(text), raw.PayloadType, raw.Signatures); err != nil {
		t.Fatal(err)
	}
	s.timestamps, _ = entity.Timestamps()
	entries, err := entity.TlogEntries()
	if err != nil {
		t.Fatal(err)
	}
	s.setEntries(entries)
	trusted := &trustedRoot{TrustedRoot: must[*root.TrustedRoot](t)(root.NewTrustedRoot(root.TrustedRootMediaType01,
		virtual.FulcioCertificateAuthorities(), nil, virtual.TimestampingAuthorities(), virtual.RekorLogs()))}
	for subject, ok := range map[string]bool{"bob@example.com": true, "eve@example.com": false} {
		k := gate.Keyless{Issuer: ciIssuer, Subject: subject}
		i := &identity{root: trusted, attempts: attemptsFor(trusted, k)}
		i.issuer, i.subject = matcher{exact: k.Issuer}, matcher{exact: k.Subject}
		i.wanted = must[verify.CertificateIdentity](t)(verify.NewShortCertificateIdentity(k.Issuer, "", k.Subject, ""))
		d := must[digest](t)(newDigest(webDigest))
		if who, err := i.accepts(t.Context(), s, d); (err == nil) != ok {
			t.Errorf("%s: %+v, %v", subject, who, err)
		}
	}
}

func TestGuarded_TurnsAPanicIntoAnError(t *testing.T) {
	var entries []int
	err := guarded(func() error { return fmt.Errorf("%d", entries[0]) })
	if err == nil || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("got %v", err)
	}
}

func TestIdentityCache_IsBoundedAndSharedByAllWhoAsk(t *testing.T) {
	cache := identityCache{entries: map[identityKey]*identity{}}
	k := *keylessCI(t, nil).Keyless
	first := must[*identity](t)(cache.get(&k))
	same := k
	if must[*identity](t)(cache.get(&same)) != first {
		t.Error("it was read again")
	}
	lenient(true, false)(&same)
	if must[*identity](t)(cache.get(&same)) == first {
		t.Error("one that ignores the log is taken for one that does not")
	}
	var wg sync.WaitGroup
	for i := range limits.Identities + 10 {
		wg.Go(func() {
			other := k
			other.Subject = fmt.Sprintf("%d@example.com", i)
			if _, err := cache.get(&other); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(cache.entries); n > limits.Identities {
		t.Errorf("%d are kept", n)
	}
}

// Evaluations run side by side on one set of identities.
func TestCheck_IsSafeForConcurrentUse(t *testing.T) {
	in := input(ruleFor(keylessCI(t, nil)), keylessBundle(t, sigstores()[0], ci(), webDigest), keylessTag(t, sigstores()[0], ci(), webDigest))
	check := New()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if f := check.Evaluate(t.Context(), in); f.Images[0].Outcome != gate.ImageVerified {
				t.Errorf("%+v", f)
			}
		})
	}
	wg.Wait()
}

// Two gates that got the same signatures in another order have to say the same bytes.
func TestCheck_SaysTheSameInAnyOrder(t *testing.T) {
	s := sigstores()
	held := []gate.Signature{
		keylessBundle(t, s[1], ci(), webDigest), keylessTag(t, s[0], ci(testkit.PartLog), webDigest), claim(t, keys()[1], webDigest),
		keylessBundle(t, s[0], person("bob@example.com", ciIssuer), webDigest), {Format: gate.FormatBundle, Bundle: []byte("{")},
		keylessBundle(t, s[0], ci(testkit.PartCertificateLog), webDigest), keylessTag(t, s[0], ci(), testkit.DigestOf("old")),
	}
	rule := gate.ImageRule{Require: gate.Requirement{Count: 2}, Authorities: []gate.Authority{keylessCI(t, lenient(true, true)), authority(0)}}
	rule.Attestations = []gate.AttestationRule{demand(provenance, "")}
	want := gate.NewChain(New()).Decide(t.Context(), input(rule, held...))
	for range held {
		held = append(held[1:], held[0])
		if got := gate.NewChain(New()).Decide(t.Context(), input(rule, held...)); got.Digest() != want.Digest() {
			t.Errorf("got %s\nwant %s", got.Canonical(), want.Canonical())
		}
	}
}

// A root that says nothing of its authority's time leaves that to the certificates.
func TestTimestampAuthority_HoldsItsTimeToItsCertificates(t *testing.T) {
	root := rootOf(t, func(r *prototrustroot.TrustedRoot) {
		r.CertificateAuthorities[0].ValidFor, r.TimestampAuthorities[0].ValidFor = nil, nil
	}, testkit.PartLog)
	for title, tc := range map[string]struct {
		at     time.Time
		remedy string
	}{
		"before they were issued":  {time.Now().Add(-2 * time.Hour), "error while verifying signer certificate chain: x509: certificate has expired or is not yet valid"},
		"after they expire":        {time.Now().Add(20 * 365 * 24 * time.Hour), "error while verifying signer certificate chain: x509: certificate has expired or is not yet valid"},
		"before the signer's were": {time.Now().Add(-30 * time.Minute), "leaf certificate verification failed"},
	} {
		by := ci(testkit.PartLog)
		by.Stamped = tc.at
		for format, make := range makers {
			t.Run(title+": "+format, func(t *testing.T) {
				got := judge(t, input(ruleFor(keylessCI(t, root)), make(t, sigstores()[0], by, webDigest)))
				if diff := got.diff(refusedCI); diff != "" || !strings.Contains(got.remedy, tc.remedy) {
					t.Errorf("%s\n%s", diff, got.remedy)
				}
			})
		}
	}
}
