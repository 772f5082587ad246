package signature

import (
	"strings"
	"testing"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	prototrustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// longChain puts the certificate of a bundle at the head of a chain of so many.
func longChain(t *testing.T, s gate.Signature) gate.Signature {
	t.Helper()
	return editBundle(t, s, func(b *protobundle.Bundle) {
		many := make([]*protocommon.X509Certificate, 100)
		for i := range many {
			many[i] = b.VerificationMaterial.GetCertificate()
		}
		b.MediaType = "application/vnd.dev.sigstore.bundle+json;version=0.2"
		b.VerificationMaterial.Content = &protobundle.VerificationMaterial_X509CertificateChain{X509CertificateChain: &protocommon.X509CertificateChain{Certificates: many}}
	})
}

// Every certificate above the signer's has to be in the trusted root. What comes as a chain
// with a signature is nothing to a decision, however long: whoever may push can attach one to
// what he forged, and to a copy of what somebody else signed.
func TestCheck_AChainThatComesWithASignatureIsNothingToIt(t *testing.T) {
	const day1, day2 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	release := keylessCI(t, func(k *gate.Keyless) { k.Subject = "release@example.com" })
	release.Name = "release"
	both := gate.ImageRule{Require: gate.Requirement{All: true}, Authorities: []gate.Authority{keylessCI(t, nil), release}}
	scans := demanding([]gate.Authority{keylessCI(t, nil)}, demand(vuln, noCritical))
	good, forged := keylessBundle(t, sigstores()[0], ci(), webDigest), keylessBundle(t, sigstores()[1], ci(), webDigest)
	scanned := func(when string, critical ...string) gate.Signature {
		return statementBy(t, ci(), false, webDigest, vuln, scan(when, critical...))
	}
	forgedScan := gate.Signature{Format: gate.FormatBundle, Bundle: must[[]byte](t)(sigstores()[1].Bundle(ci(), webDigest, vuln, scan(day2)))}
	no := judged{Outcome: gate.ImageUntrusted, Deny: []string{"image has no signature that authority ci accepts"}}
	verified := judged{Outcome: gate.ImageVerified, Authority: "ci", Identity: ciName}
	passes := judged{Outcome: gate.ImageVerified, Authority: "ci", Identity: ciName, Attestations: []string{vuln}}
	type list = []gate.Signature
	for title, tc := range map[string]struct {
		rule gate.ImageRule
		held list
		want judged
	}{
		"one that is not from the root":     {ruleFor(keylessCI(t, nil)), list{longChain(t, forged)}, no},
		"one by somebody else":              {ruleFor(release), list{longChain(t, good)}, judged{Outcome: gate.ImageUntrusted, Deny: []string{"image has no signature that authority release accepts"}}},
		"one about another image":           {ruleFor(keylessCI(t, nil)), list{longChain(t, keylessBundle(t, sigstores()[0], ci(), testkit.DigestOf("another")))}, no},
		"a good one":                        {ruleFor(keylessCI(t, nil)), list{longChain(t, good)}, verified},
		"a forged one beside a good one":    {ruleFor(keylessCI(t, nil)), list{longChain(t, forged), good}, verified},
		"a copy, where another has to sign": {both, list{good, longChain(t, good)}, judged{Outcome: gate.ImageUntrusted, Deny: []string{"image needs a signature of every authority, and has none of release"}}},
		"a copy of an older scan that passes": {scans, list{scanned(day2, "CVE-1"), longChain(t, scanned(day1))},
			judged{Outcome: gate.ImageUntrusted, Deny: []string{"attestation of type " + vuln + " is refused: CVE-1 is critical"}}},
		"a forged scan that passes": {scans, list{scanned(day1, "CVE-1"), longChain(t, forgedScan)},
			judged{Outcome: gate.ImageUntrusted, Deny: []string{"attestation of type " + vuln + " is refused: CVE-1 is critical"}}},
		"a forged scan beside a good one": {scans, list{scanned(day1), longChain(t, forgedScan)}, passes},
		"a newer scan that finds something": {scans, list{scanned(day1), longChain(t, scanned(day2, "CVE-1"))},
			judged{Outcome: gate.ImageUntrusted, Deny: []string{"attestation of type " + vuln + " is refused: CVE-1 is critical"}}},
	} {
		t.Run(title, func(t *testing.T) {
			in := input(tc.rule, tc.held...)
			if tc.rule.Require.None {
				in = withAttestations(input(tc.rule), tc.held...)
			}
			if diff := judge(t, in).diff(tc.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The same of evidence for a promotion.
func TestStatements_AChainThatComesWithOneIsNothingToIt(t *testing.T) {
	forged := gate.Signature{Format: gate.FormatBundle, Bundle: must[[]byte](t)(sigstores()[1].Bundle(ci(), webDigest, provenance, nil))}
	image := &gate.Image{Digest: webDigest, Attestations: []gate.Signature{longChain(t, forged), longChain(t, statementBy(t, ci(), false, webDigest, provenance, nil))}}
	got := New().Statements(t.Context(), []gate.Authority{keylessCI(t, nil)}, image, provenance)
	if len(got.Accepted) != 1 || len(got.Strangers) != 1 || len(got.Unread) > 0 || !strings.Contains(strings.Join(got.Reasons, ""), "verif") {
		t.Errorf("%+v", got)
	}
}

// What stands between the signer's certificate and the root counts where the trusted root lists
// it, as that of a private Sigstore does, and nowhere else.
func TestCheck_IntermediatesAreThoseOfTheTrustedRoot(t *testing.T) {
	without := trustedRootJSON(t, func(r *prototrustroot.TrustedRoot) {
		for _, ca := range r.CertificateAuthorities {
			all := ca.CertChain.Certificates
			ca.CertChain.Certificates = all[len(all)-1:]
		}
	})
	for title, make := range map[string]maker{"bundle": keylessBundle, "tag": keylessTag} {
		held := make(t, sigstores()[0], ci(), webDigest)
		if diff := judge(t, input(ruleFor(keylessCI(t, nil)), held)).diff(judged{Outcome: gate.ImageVerified, Authority: "ci", Identity: ciName}); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
		rule := ruleFor(keylessCI(t, func(k *gate.Keyless) { k.TrustedRoot = without }))
		if diff := judge(t, input(rule, held)).diff(judged{Outcome: gate.ImageUntrusted, Deny: []string{"image has no signature that authority ci accepts"}}); diff != "" {
			t.Errorf("%s, and no intermediate in the root: %s", title, diff)
		}
	}
}
