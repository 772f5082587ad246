package signature

import (
	"strings"
	"testing"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func TestReadAnnotations_BoundsTheChain(t *testing.T) {
	s := keylessTag(t, sigstores()[0], ci(), webDigest)
	s.Chain = []byte(strings.Repeat(string(s.Chain), 6))
	chain := editBundle(t, keylessBundle(t, sigstores()[0], ci(), webDigest), func(b *protobundle.Bundle) {
		c := b.VerificationMaterial.GetCertificate()
		many := make([]*protocommon.X509Certificate, 12)
		for i := range many {
			many[i] = c
		}
		b.MediaType = "application/vnd.dev.sigstore.bundle+json;version=0.2"
		b.VerificationMaterial.Content = &protobundle.VerificationMaterial_X509CertificateChain{X509CertificateChain: &protocommon.X509CertificateChain{Certificates: many}}
	})
	good := keylessBundle(t, sigstores()[0], ci(), webDigest)
	other := keylessCI(t, func(k *gate.Keyless) { k.Subject = "somebody@example.com" })
	for title, long := range map[string]gate.Signature{"under a tag": s, "in a bundle": chain} {
		undecided := judge(t, input(ruleFor(keylessCI(t, nil)), long))
		if undecided.Outcome != gate.ImageError || len(undecided.Deny) > 0 || !strings.Contains(strings.Join(undecided.Undecided, ""), "more than 10 (limits.CertificateChain)") {
			t.Errorf("%s: %+v", title, undecided)
		}
		// By somebody else it is nothing, and beside a good one neither.
		if got := judge(t, input(ruleFor(other), long)); got.Outcome != gate.ImageUntrusted || len(got.Undecided) > 0 {
			t.Errorf("%s, by somebody else: %+v", title, got)
		}
		if got := judge(t, input(ruleFor(keylessCI(t, nil)), long, good)); got.Outcome != gate.ImageVerified {
			t.Errorf("%s, beside a good one: %+v", title, got)
		}
	}
	// Copied from beside another image it could not be this one's, whoever made it.
	elsewhere := keylessTag(t, sigstores()[0], ci(), testkit.DigestOf("another"))
	elsewhere.Chain = s.Chain
	statement := statementBy(t, ci(), true, testkit.DigestOf("another"), vuln, scan("2026-03-01T00:00:00Z"))
	statement.Chain = s.Chain
	if got := judge(t, input(ruleFor(keylessCI(t, nil)), elsewhere)); got.Outcome != gate.ImageUntrusted || len(got.Undecided) > 0 {
		t.Errorf("about another image: %+v", got)
	}
	if got := judge(t, withAttestations(input(demanding([]gate.Authority{keylessCI(t, nil)}, demand(vuln, ""))), statement)); got.Outcome != gate.ImageUntrusted || len(got.Undecided) > 0 {
		t.Errorf("a statement about another image: %+v", got)
	}
	// A key needs no certificates, whatever is attached.
	byKey := claim(t, keys()[0], webDigest)
	byKey.Chain = s.Chain
	if got := judge(t, input(ruleFor(authority(0)), byKey)); got.Outcome != gate.ImageVerified {
		t.Errorf("by a key: %+v", got)
	}
}

func TestCheck_AScanWithALongChainMayBeTheNewest(t *testing.T) {
	older := statementBy(t, ci(), true, webDigest, vuln, scan("2026-02-01T00:00:00Z"))
	newer := statementBy(t, ci(), true, webDigest, vuln, scan("2026-03-01T00:00:00Z"))
	rule := demanding([]gate.Authority{keylessCI(t, nil)}, demand(vuln, ""))
	if got := judge(t, withAttestations(input(rule), older)); got.Outcome != gate.ImageVerified {
		t.Fatalf("one scan: %+v", got)
	}
	newer.Chain = []byte(strings.Repeat("-----BEGIN CERTIFICATE-----\n", limits.CertificateChain+1))
	if got := judge(t, withAttestations(input(rule), older, newer)); got.Outcome != gate.ImageError || !strings.Contains(strings.Join(got.Undecided, ""), "limits.CertificateChain") {
		t.Errorf("a newer one with a long chain: %+v", got)
	}
}
