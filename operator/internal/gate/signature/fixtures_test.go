package signature

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	cosignbundle "github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	prototrustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// Two instances of Sigstore, of which Gates trust the first.
var sigstores = sync.OnceValue(func() [2]*testkit.Sigstore {
	var all [2]*testkit.Sigstore
	for i := range all {
		s, err := testkit.NewSigstore()
		if err != nil {
			panic(err)
		}
		all[i] = s
	}
	return all
})

const (
	ciIssuer  = "https://token.actions.githubusercontent.com"
	ciSubject = "https://github.com/shop/web/.github/workflows/release.yaml@refs/heads/main"
	ciName    = ciSubject + " (" + ciIssuer + ")"
)

func must[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// ci is the identity that Gates trust, without some parts of what it comes with.
func ci(without ...testkit.Part) testkit.Identity {
	return testkit.Identity{Subject: ciSubject, Issuer: ciIssuer, Without: without}
}

func person(subject, issuer string) testkit.Identity {
	return testkit.Identity{Subject: subject, Issuer: issuer}
}

func trustedRootJSON(t testing.TB, change func(*prototrustroot.TrustedRoot), without ...testkit.Part) []byte {
	t.Helper()
	r := must[*prototrustroot.TrustedRoot](t)(sigstores()[0].TrustedRoot(without...))
	if change != nil {
		change(r)
	}
	return must[[]byte](t)(protojson.Marshal(r))
}

// keylessCI is the authority "ci", changed.
func keylessCI(t testing.TB, change func(*gate.Keyless)) gate.Authority {
	t.Helper()
	k := &gate.Keyless{Issuer: ciIssuer, Subject: ciSubject, TrustedRoot: trustedRootJSON(t, nil)}
	if change != nil {
		change(k)
	}
	return gate.Authority{Name: "ci", Keyless: k}
}

func ruleFor(authorities ...gate.Authority) gate.ImageRule {
	return gate.ImageRule{Require: gate.Requirement{Count: 1}, Authorities: authorities}
}

func fromTag(format gate.SignatureFormat, s testkit.TagSignature) gate.Signature {
	return gate.Signature{
		Format: format, Payload: s.Payload, Base64: s.Base64,
		Certificate: s.Certificate, RekorBundle: s.RekorBundle, Timestamp: s.Timestamp,
	}
}

// maker makes a keyless signature of an image in one format.
type maker func(t testing.TB, s *testkit.Sigstore, by testkit.Identity, digest string) gate.Signature

func keylessTag(t testing.TB, s *testkit.Sigstore, by testkit.Identity, digest string) gate.Signature {
	t.Helper()
	return fromTag(gate.FormatCosignTag, must[testkit.TagSignature](t)(s.SimpleSigning(by, repository, digest)))
}

func keylessBundle(t testing.TB, s *testkit.Sigstore, by testkit.Identity, digest string) gate.Signature {
	t.Helper()
	return gate.Signature{Format: gate.FormatBundle, Bundle: must[[]byte](t)(s.Bundle(by, digest, testkit.PredicateSign, nil))}
}

var makers = map[string]maker{"tag": keylessTag, "bundle": keylessBundle}

// statementBy makes an attestation in a bundle, or under the .att tag.
func statementBy(t testing.TB, by testkit.Identity, tag bool, digest, predicateType string, predicate any) gate.Signature {
	t.Helper()
	s := sigstores()[0]
	if tag {
		return fromTag(gate.FormatAttestationTag, must[testkit.TagSignature](t)(s.Attestation(by, digest, predicateType, predicate)))
	}
	return gate.Signature{Format: gate.FormatBundle, Bundle: must[[]byte](t)(s.Bundle(by, digest, predicateType, predicate))}
}

// keyStatement is the same by a key.
func keyStatement(t testing.TB, k *testkit.Key, tag bool, digest, predicateType string, predicate any) gate.Signature {
	t.Helper()
	if tag {
		return gate.Signature{Format: gate.FormatAttestationTag, Payload: must[[]byte](t)(k.Envelope(digest, predicateType, predicate))}
	}
	return bundleOf(t, k, digest, predicateType, predicate)
}

// editBundle changes a bundle and leaves its signature as it is.
func editBundle(t testing.TB, s gate.Signature, edit func(*protobundle.Bundle)) gate.Signature {
	t.Helper()
	var b protobundle.Bundle
	if err := protojson.Unmarshal(s.Bundle, &b); err != nil {
		t.Fatal(err)
	}
	edit(&b)
	s.Bundle = must[[]byte](t)(protojson.Marshal(&b))
	return s
}

func editRekor(t testing.TB, s gate.Signature, edit func(*cosignbundle.RekorBundle)) gate.Signature {
	t.Helper()
	var b cosignbundle.RekorBundle
	if err := json.Unmarshal(s.RekorBundle, &b); err != nil {
		t.Fatal(err)
	}
	edit(&b)
	s.RekorBundle = must[[]byte](t)(json.Marshal(b))
	return s
}

// judged is all that a test may want to see of one image's findings.
type judged struct {
	Outcome      gate.ImageOutcome
	Authority    string
	Identity     string
	Attestations []string
	// Deny, Undecided and Warn are messages; Remedy is that of the last denial.
	Deny, Undecided, Warn []string
	remedy                string
}

func judge(t testing.TB, in *gate.Input) judged {
	t.Helper()
	return judgeWithin(t, t.Context(), in)
}

func judgeWithin(t testing.TB, ctx context.Context, in *gate.Input) judged {
	t.Helper()
	f := New().Evaluate(ctx, in)
	if len(f.Images) != 1 {
		t.Fatalf("%d image results", len(f.Images))
	}
	i := f.Images[0]
	got := judged{Outcome: i.Outcome, Authority: i.Authority, Identity: i.Identity, Attestations: i.Attestations}
	for _, d := range f.Deny {
		got.Deny = append(got.Deny, d.Message)
		got.remedy = d.Remedy
		if d.Policy != "signature" || d.Remedy == "" || d.Path == "" {
			t.Errorf("finding %+v", d)
		}
	}
	for _, u := range f.Undecided {
		got.Undecided = append(got.Undecided, u.Message)
	}
	for _, w := range f.Warn {
		got.Warn = append(got.Warn, w.Message)
		if w.Severity != gate.SeverityMedium || w.Remedy == "" {
			t.Errorf("finding %+v", w)
		}
	}
	return got
}

func (j judged) diff(want judged) string {
	return cmp.Diff(want, j, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".remedy" }, cmp.Ignore()))
}

func withAttestations(in *gate.Input, attestations ...gate.Signature) *gate.Input {
	in.Images[0].Attestations = attestations
	return in
}

func swap(s gate.Signature, from, to string) gate.Signature {
	s.Payload = []byte(strings.ReplaceAll(string(s.Payload), from, to))
	return s
}
