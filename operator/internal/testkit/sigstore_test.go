package testkit

import (
	"crypto/x509"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

var workflow = Identity{
	Subject: "https://github.com/shop/web/.github/workflows/release.yaml@refs/heads/main",
	Issuer:  "https://token.actions.githubusercontent.com",
}

func trusted(t testing.TB, s *Sigstore) *root.TrustedRoot {
	t.Helper()
	return must[*root.TrustedRoot](t)(root.NewTrustedRootFromJSON(must[[]byte](t)(s.TrustedRootJSON())))
}

// What Bundle makes has to satisfy sigstore-go as it comes.
func TestSigstore_BundlesAreWhatSigstoreGoVerifies(t *testing.T) {
	s := must[*Sigstore](t)(NewSigstore())
	digest := DigestOf("web")
	raw := must[[]byte](t)(hex.DecodeString(strings.TrimPrefix(digest, "sha256:")))
	who := must[verify.CertificateIdentity](t)(verify.NewShortCertificateIdentity(workflow.Issuer, "", workflow.Subject, ""))
	all := []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithSignedCertificateTimestamps(1), verify.WithObserverTimestamps(1)}
	tiles := workflow
	tiles.Tiles = true
	for title, tc := range map[string]struct {
		by      Identity
		options []verify.VerifierOption
		wantErr string
	}{
		"with everything":               {workflow, append(all, verify.WithIntegratedTimestamps(1), verify.WithSignedTimestamps(1)), ""},
		"logged in version 2":           {tiles, all, ""},
		"version 2 gives no time":       {tiles, append(all, verify.WithIntegratedTimestamps(1)), "integrated timestamps"},
		"without a log entry":           {leaving(PartLog), all, "not enough verified log entries"},
		"without a certificate promise": {leaving(PartCertificateLog), all, "SCT"},
		"without a timestamp":           {leaving(PartTimestamp), append(all, verify.WithSignedTimestamps(1)), "signed timestamps"},
	} {
		t.Run(title, func(t *testing.T) {
			var b bundle.Bundle
			if err := b.UnmarshalJSON(must[[]byte](t)(s.Bundle(tc.by, digest, PredicateSign, nil))); err != nil {
				t.Fatal(err)
			}
			v := must[*verify.Verifier](t)(verify.NewVerifier(trusted(t, s), tc.options...))
			_, err := v.Verify(&b, verify.NewPolicy(verify.WithArtifactDigest("sha256", raw), verify.WithCertificateIdentity(who)))
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func leaving(p Part) Identity {
	by := workflow
	by.Without = []Part{p}
	return by
}

// What SignTag and AttestTag store has to satisfy cosign as it comes.
func TestSigstore_TagsAreWhatCosignVerifies(t *testing.T) {
	s := must[*Sigstore](t)(NewSigstore())
	r := newRegistry(t, RegistryOptions{})
	repository := r.Host() + "/shop/web"
	digest := must[string](t)(PushImage(repository+":1", "web"))
	if err := s.SignTag(workflow, repository, digest); err != nil {
		t.Fatal(err)
	}
	if err := s.AttestTag(workflow, repository, digest, "https://example.com/review/v1", nil); err != nil {
		t.Fatal(err)
	}
	ref := must[name.Digest](t)(name.NewDigest(repository + "@" + digest))
	opts := func(subject string) *cosign.CheckOpts {
		return &cosign.CheckOpts{
			TrustedMaterial: trusted(t, s), UseSignedTimestamps: true, Offline: true,
			Identities: []cosign.Identity{{Issuer: workflow.Issuer, Subject: subject}},
		}
	}
	signed := opts(workflow.Subject)
	signed.ClaimVerifier = cosign.SimpleClaimVerifier
	if found, logged, err := cosign.VerifyImageSignatures(t.Context(), ref, signed); err != nil || len(found) != 1 || !logged {
		t.Errorf("%d signatures, logged %v, %v", len(found), logged, err)
	}
	attested := opts(workflow.Subject)
	attested.ClaimVerifier = cosign.IntotoSubjectClaimVerifier
	if found, logged, err := cosign.VerifyImageAttestations(t.Context(), ref, attested); err != nil || len(found) != 1 || !logged {
		t.Errorf("%d attestations, logged %v, %v", len(found), logged, err)
	}
	if _, _, err := cosign.VerifyImageSignatures(t.Context(), ref, opts("somebody@example.com")); err == nil {
		t.Error("cosign accepts another identity")
	}
}

func TestKey_AttestTagIsWhatCosignVerifies(t *testing.T) {
	r := newRegistry(t, RegistryOptions{})
	repository := r.Host() + "/shop/web"
	digest := must[string](t)(PushImage(repository+":1", "web"))
	key := must[*Key](t)(NewKey())
	if err := key.AttestTag(repository, digest, "https://example.com/review/v1", map[string]string{"by": "bob"}); err != nil {
		t.Fatal(err)
	}
	ref := must[name.Digest](t)(name.NewDigest(repository + "@" + digest))
	opts := &cosign.CheckOpts{SigVerifier: key.signer, IgnoreTlog: true, IgnoreSCT: true, Offline: true, ClaimVerifier: cosign.IntotoSubjectClaimVerifier}
	if found, _, err := cosign.VerifyImageAttestations(t.Context(), ref, opts); err != nil || len(found) != 1 {
		t.Errorf("%d attestations, %v", len(found), err)
	}
}

func TestSigstore_IssuesWhatItIsToldTo(t *testing.T) {
	s := must[*Sigstore](t)(NewSigstore())
	by := workflow
	by.Change = func(c *x509.Certificate) { c.EmailAddresses = []string{"second@example.com"} }
	var b bundle.Bundle
	if err := b.UnmarshalJSON(must[[]byte](t)(s.Bundle(by, DigestOf("web"), PredicateSign, nil))); err != nil {
		t.Fatal(err)
	}
	content := must[verify.VerificationContent](t)(b.VerificationContent())
	if c := content.Certificate(); len(c.URIs) != 1 || len(c.EmailAddresses) != 1 {
		t.Errorf("got %v and %v", c.URIs, c.EmailAddresses)
	}
}
