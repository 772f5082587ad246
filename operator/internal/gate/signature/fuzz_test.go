package signature

import (
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// The seeds are some KiB long, and making one that is interesting shorter takes a minute:
// run these with -fuzzminimizetime 10x.

// strangersInput asks for a signature and an attestation by authorities that made none
// of the seeds.
func strangersInput(tb testing.TB, s gate.Signature) *gate.Input {
	stranger := keylessCI(tb, func(k *gate.Keyless) {
		raw, err := sigstores()[1].TrustedRootJSON()
		if err != nil {
			tb.Fatal(err)
		}
		k.TrustedRoot = raw
	})
	rule := ruleFor(stranger, authority(1))
	rule.Attestations = []gate.AttestationRule{demand(provenance, "")}
	return withAttestations(input(rule, s), s)
}

func mustNotVerify(t *testing.T, s gate.Signature) {
	t.Helper()
	f := New().Evaluate(t.Context(), strangersInput(t, s))
	if len(f.Images) != 1 || f.Images[0].Outcome == gate.ImageVerified || len(f.Images[0].Attestations) > 0 || len(f.Deny) == 0 {
		t.Errorf("%+v is accepted: %+v", s, f)
	}
}

func FuzzBundle(f *testing.F) {
	f.Add(keylessBundle(f, sigstores()[0], ci(), webDigest).Bundle)
	f.Add(statementBy(f, ci(), false, webDigest, provenance, map[string]any{"a": []int{1}}).Bundle)
	f.Add(signatureBundle(f, keys()[0], webDigest).Bundle)
	tiles := ci()
	tiles.Tiles = true
	f.Add(keylessBundle(f, sigstores()[0], tiles, webDigest).Bundle)
	f.Fuzz(func(t *testing.T, raw []byte) {
		mustNotVerify(t, gate.Signature{Format: gate.FormatBundle, Bundle: raw})
	})
}

func FuzzEnvelope(f *testing.F) {
	s := statementBy(f, ci(), true, webDigest, provenance, nil)
	f.Add(s.Payload, s.Certificate, s.RekorBundle, s.Timestamp)
	f.Add(keyStatement(f, keys()[0], true, webDigest, provenance, nil).Payload, []byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, payload, certificate, entry, timestamp []byte) {
		mustNotVerify(t, gate.Signature{Format: gate.FormatAttestationTag, Payload: payload, Certificate: certificate, RekorBundle: entry, Timestamp: timestamp})
	})
}

func FuzzClaim(f *testing.F) {
	s := keylessTag(f, sigstores()[0], ci(), webDigest)
	f.Add(s.Payload, s.Base64, s.Certificate, s.RekorBundle, s.Timestamp)
	c := claim(f, keys()[0], webDigest)
	f.Add(c.Payload, c.Base64, []byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, payload []byte, signature string, certificate, entry, timestamp []byte) {
		mustNotVerify(t, gate.Signature{Format: gate.FormatCosignTag, Payload: payload, Base64: signature, Certificate: certificate, RekorBundle: entry, Timestamp: timestamp})
	})
}

// However a trusted root is written, it does not make an instance trusted that it does
// not list.
func FuzzTrustedRoot(f *testing.F) {
	f.Add(trustedRootJSON(f, nil))
	f.Add(trustedRootJSON(f, nil, testkit.PartLog, testkit.PartCertificateLog))
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1","tlogs":[{}],"certificateAuthorities":[{}]}`))
	theirs := keylessBundle(f, sigstores()[1], ci(), webDigest)
	f.Fuzz(func(t *testing.T, raw []byte) {
		k := gate.Keyless{Issuer: ciIssuer, Subject: ciSubject, TrustedRoot: raw, IgnoreTransparencyLog: true, IgnoreCertificateLog: true}
		i, err := newIdentity(k)
		if (err == nil) != (ValidateKeyless(k) == nil) {
			t.Fatal("a valid identity cannot be used, or an invalid one can")
		}
		if err != nil {
			return
		}
		var s stored
		if err := s.read(&theirs); err != nil {
			t.Fatal(err)
		}
		d, err := newDigest(webDigest)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := i.accepts(t.Context(), &s, d); err == nil {
			t.Errorf("%s is accepted under %q", who.identity, raw)
		}
	})
}

func BenchmarkKeyless(b *testing.B) {
	s := sigstores()[0]
	demands := ruleFor(keylessCI(b, nil))
	demands.Require, demands.Attestations = gate.Requirement{None: true}, []gate.AttestationRule{demand(vuln, noCritical)}
	junk := input(ruleFor(keylessCI(b, nil)))
	for range 64 {
		junk.Images[0].Signatures = append(junk.Images[0].Signatures, keylessTag(b, sigstores()[1], ci(), webDigest))
	}
	for name, tc := range map[string]struct {
		in   *gate.Input
		want gate.ImageOutcome
	}{
		"bundle":                     {input(ruleFor(keylessCI(b, nil)), keylessBundle(b, s, ci(), webDigest)), gate.ImageVerified},
		"tag":                        {input(ruleFor(keylessCI(b, nil)), keylessTag(b, s, ci(), webDigest)), gate.ImageVerified},
		"attestation with policy":    {withAttestations(input(demands), statementBy(b, ci(), false, webDigest, vuln, scan("2026-01-01T00:00:00Z"))), gate.ImageVerified},
		"64 signatures of strangers": {junk, gate.ImageUntrusted},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if f := New().Evaluate(b.Context(), tc.in); f.Images[0].Outcome != tc.want {
					b.Fatal(f)
				}
			}
		})
	}
	b.Run("reading the identity", func(b *testing.B) {
		k := *keylessCI(b, nil).Keyless
		b.ReportAllocs()
		for b.Loop() {
			if _, err := newIdentity(k); err != nil {
				b.Fatal(err)
			}
		}
	})
}
