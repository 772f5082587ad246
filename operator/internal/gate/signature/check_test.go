package signature

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const repository = "registry.example.com/shop/web"

var (
	webDigest = testkit.DigestOf("web")
	keys      = sync.OnceValue(func() []*testkit.Key {
		all := make([]*testkit.Key, 4)
		for i := range all {
			k, err := testkit.NewKey()
			if err != nil {
				panic(err)
			}
			all[i] = k
		}
		return all
	})
)

func authority(i int) gate.Authority {
	return gate.Authority{Name: fmt.Sprint("key-", i), PublicKeyPEM: keys()[i].PublicPEM}
}

func claim(t testing.TB, k *testkit.Key, digest string) gate.Signature {
	t.Helper()
	payload, sig, err := k.SimpleSigning(repository, digest)
	if err != nil {
		t.Fatal(err)
	}
	return gate.Signature{Format: gate.FormatCosignTag, Payload: payload, Base64: sig}
}

func bundleOf(t testing.TB, k *testkit.Key, digest, predicateType string, predicate any) gate.Signature {
	t.Helper()
	raw, err := k.Bundle(digest, predicateType, predicate)
	if err != nil {
		t.Fatal(err)
	}
	return gate.Signature{Format: gate.FormatBundle, Bundle: raw}
}

func signatureBundle(t testing.TB, k *testkit.Key, digest string) gate.Signature {
	return bundleOf(t, k, digest, testkit.PredicateSign, nil)
}

// input has one image, at one place, under a rule.
func input(rule gate.ImageRule, signatures ...gate.Signature) *gate.Input {
	rule.Match = "registry.example.com/shop/**"
	return &gate.Input{
		Gate:   gate.Config{Name: "prod", Images: []gate.ImageRule{rule}, DenyUnmatched: true},
		Object: gate.ObjectRef{Kind: "Workload", Namespace: "shop", Name: "web"},
		Images: []gate.Image{{
			Ref: repository + ":1", Repository: repository, Tag: "1", Digest: webDigest, Signatures: signatures,
			Locations: []gate.Location{{Object: "Deployment/shop/web", Path: "spec.template.spec.containers[0].image"}},
		}},
	}
}

func anyOf(n ...int) gate.ImageRule {
	rule := gate.ImageRule{Require: gate.Requirement{Count: 1}}
	for _, i := range n {
		rule.Authorities = append(rule.Authorities, authority(i))
	}
	return rule
}

// outcome is what a test wants to see of the findings.
type outcome struct {
	image     gate.ImageOutcome
	authority string
	// deny and undecided are the messages.
	deny, undecided string
}

func evaluate(t testing.TB, in *gate.Input) outcome {
	t.Helper()
	f := New().Evaluate(context.Background(), in)
	if len(f.Images) != 1 {
		t.Fatalf("%d image results", len(f.Images))
	}
	got := outcome{image: f.Images[0].Outcome, authority: f.Images[0].Authority}
	for _, d := range f.Deny {
		got.deny = d.Message
		if d.Policy != "signature" || d.Severity != gate.SeverityCritical || d.Remedy == "" {
			t.Errorf("finding %+v", d)
		}
	}
	for _, d := range f.Undecided {
		got.undecided = d.Message
	}
	return got
}

func TestCheck_AcceptsASignatureByTheKeyAndNothingElse(t *testing.T) {
	none := "image has no signature that authority key-0 accepts"
	key, other := keys()[0], keys()[1]
	verified := outcome{image: gate.ImageVerified, authority: "key-0"}
	untrusted := outcome{image: gate.ImageUntrusted, deny: none}
	unsigned := outcome{image: gate.ImageUnsigned, deny: none}
	mutate := func(s gate.Signature, f func(*gate.Signature)) gate.Signature { f(&s); return s }
	message, err := key.MessageBundle([]byte("web"))
	if err != nil {
		t.Fatal(err)
	}
	for title, tc := range map[string]struct {
		signatures []gate.Signature
		want       outcome
	}{
		"cosign v2: a claim under the .sig tag": {[]gate.Signature{claim(t, key, webDigest)}, verified},
		"cosign v3: a bundle":                   {[]gate.Signature{signatureBundle(t, key, webDigest)}, verified},
		"both":                                  {[]gate.Signature{claim(t, key, webDigest), signatureBundle(t, key, webDigest)}, verified},
		"the right one after others":            {[]gate.Signature{claim(t, other, webDigest), signatureBundle(t, other, webDigest), claim(t, key, webDigest)}, verified},
		"garbage beside the right one":          {[]gate.Signature{{Format: gate.FormatBundle, Bundle: []byte("{")}, claim(t, key, webDigest)}, verified},
		"no signature":                          {nil, unsigned},
		"a claim by another key":                {[]gate.Signature{claim(t, other, webDigest)}, untrusted},
		"a bundle by another key":               {[]gate.Signature{signatureBundle(t, other, webDigest)}, untrusted},
		"a claim about another image":           {[]gate.Signature{claim(t, key, testkit.DigestOf("old"))}, untrusted},
		"a bundle about another image":          {[]gate.Signature{signatureBundle(t, key, testkit.DigestOf("old"))}, untrusted},
		"a claim changed to this image": {[]gate.Signature{mutate(claim(t, key, testkit.DigestOf("old")), func(s *gate.Signature) {
			s.Payload = []byte(strings.ReplaceAll(string(s.Payload), testkit.DigestOf("old"), webDigest))
		})}, untrusted},
		"a claim with one bit of its signature changed": {[]gate.Signature{mutate(claim(t, key, webDigest), func(s *gate.Signature) {
			raw, _ := base64.StdEncoding.DecodeString(s.Base64)
			raw[len(raw)-1] ^= 1
			s.Base64 = base64.StdEncoding.EncodeToString(raw)
		})}, untrusted},
		"a claim without signature":            {[]gate.Signature{mutate(claim(t, key, webDigest), func(s *gate.Signature) { s.Base64 = "" })}, untrusted},
		"a claim whose signature is no base64": {[]gate.Signature{mutate(claim(t, key, webDigest), func(s *gate.Signature) { s.Base64 = "%%%" })}, untrusted},
		"a truncated bundle":                   {[]gate.Signature{mutate(signatureBundle(t, key, webDigest), func(s *gate.Signature) { s.Bundle = s.Bundle[:len(s.Bundle)/2] })}, untrusted},
		"a bundle with another's statement": {[]gate.Signature{mutate(signatureBundle(t, key, webDigest), func(s *gate.Signature) {
			mine, theirs := payloadOf(t, s.Bundle), payloadOf(t, signatureBundle(t, key, testkit.DigestOf("old")).Bundle)
			s.Bundle = []byte(strings.Replace(string(s.Bundle), mine, theirs, 1))
		})}, untrusted},
		"a bundle in place of a claim": {[]gate.Signature{mutate(signatureBundle(t, key, webDigest), func(s *gate.Signature) { s.Format, s.Payload = gate.FormatCosignTag, s.Bundle })}, untrusted},
		"a format of tomorrow":         {[]gate.Signature{{Format: "cosign-v9"}}, untrusted},
		"an attestation by the key":    {[]gate.Signature{bundleOf(t, key, webDigest, "https://slsa.dev/provenance/v1", nil)}, unsigned},
		"a failed scan, attested by the key": {[]gate.Signature{bundleOf(t, key, webDigest, "https://cosign.sigstore.dev/attestation/vuln/v1",
			map[string]string{"result": "FAILED"})}, unsigned},
		"an attestation whose type only begins right": {[]gate.Signature{bundleOf(t, key, webDigest, testkit.PredicateSign+"x", nil)}, unsigned},
		"a file signed by the key":                    {[]gate.Signature{{Format: gate.FormatBundle, Bundle: message}}, unsigned},
		"an attestation stored as a claim": {[]gate.Signature{signedClaim(t, key, fmt.Sprintf(
			`{"critical":{"image":{"docker-manifest-digest":%q},"type":"vulnerability scan"}}`, webDigest))}, untrusted},
		"a claim that names no digest": {[]gate.Signature{signedClaim(t, key, `{"critical":{"type":"cosign container image signature"}}`)}, untrusted},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, evaluate(t, input(anyOf(0), tc.signatures...)), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// signedClaim signs any text with the key, as a claim.
func signedClaim(t testing.TB, k *testkit.Key, text string) gate.Signature {
	t.Helper()
	sig, err := k.SignMessage([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return gate.Signature{Format: gate.FormatCosignTag, Payload: []byte(text), Base64: base64.StdEncoding.EncodeToString(sig)}
}

func payloadOf(t testing.TB, bundle []byte) string {
	t.Helper()
	_, rest, ok := strings.Cut(string(bundle), `"payload":`)
	if !ok {
		t.Fatal("no payload in the bundle")
	}
	return strings.SplitN(rest, `"`, 3)[1]
}

func TestCheck_CountsAuthorities(t *testing.T) {
	rule := func(require gate.Requirement, authorities ...gate.Authority) gate.ImageRule {
		return gate.ImageRule{Require: require, Authorities: authorities}
	}
	gone := gate.Authority{Name: "gone", Unavailable: "Secret sluice-system/signer is not there"}
	twin := authority(0)
	twin.Name = "twin"
	all, two := gate.Requirement{All: true}, gate.Requirement{Count: 2}
	by := func(n ...int) []gate.Signature {
		var out []gate.Signature
		for i, k := range n {
			if i%2 == 0 {
				out = append(out, claim(t, keys()[k], webDigest))
			} else {
				out = append(out, signatureBundle(t, keys()[k], webDigest))
			}
		}
		return out
	}
	for title, tc := range map[string]struct {
		rule       gate.ImageRule
		signatures []gate.Signature
		want       outcome
	}{
		"any of three, one signed": {anyOf(0, 1, 2), by(1), outcome{image: gate.ImageVerified, authority: "key-1"}},
		"any of three, none signed": {anyOf(0, 1, 2), by(3), outcome{image: gate.ImageUntrusted,
			deny: "image has no signature that authority key-0, key-1 or key-2 accepts"}},
		"any, all signed: all are named, sorted": {anyOf(1, 0), by(1, 0), outcome{image: gate.ImageVerified, authority: "key-0,key-1"}},
		"all of two, both signed":                {rule(all, authority(0), authority(1)), by(0, 1), outcome{image: gate.ImageVerified, authority: "key-0,key-1"}},
		"all of two, one signed": {rule(all, authority(0), authority(1)), by(0), outcome{image: gate.ImageUntrusted,
			deny: "image needs a signature of every authority, and has none of key-1"}},
		"all of none": {rule(all), by(0), outcome{image: gate.ImageUntrusted,
			deny: "rule registry.example.com/shop/** names no authority, so that no signature can be accepted"}},
		"two of three, two signed": {rule(two, authority(0), authority(1), authority(2)), by(2, 0), outcome{image: gate.ImageVerified, authority: "key-0,key-2"}},
		"two of three, one signed": {rule(two, authority(0), authority(1), authority(2)), by(2), outcome{image: gate.ImageUntrusted,
			deny: "image needs signatures by 2 different keys and has 1; none of key-0 and key-1"}},
		"two of three, one signed twice": {rule(two, authority(0), authority(1), authority(2)), by(2, 2), outcome{image: gate.ImageUntrusted,
			deny: "image needs signatures by 2 different keys and has 1; none of key-0 and key-1"}},
		"two, and both are the same key": {rule(two, authority(0), twin), by(0), outcome{image: gate.ImageUntrusted,
			deny: "image needs signatures by 2 different keys and has 1; none of any other authority"}},
		"all, and both are the same key": {rule(all, authority(0), twin), by(0), outcome{image: gate.ImageUntrusted,
			deny: "image needs a signature of every authority, each by another signer, and key-0 and twin are satisfied by 1 signer alone"}},
		"all, and two of three are the same key": {rule(all, authority(1), authority(0), twin), by(0, 1), outcome{image: gate.ImageUntrusted,
			deny: "image needs a signature of every authority, each by another signer, and key-0 and twin are satisfied by 1 signer alone"}},
		"all, two are the same key and one did not sign": {rule(all, authority(1), authority(0), twin), by(0), outcome{image: gate.ImageUntrusted,
			deny: "image needs a signature of every authority, and has none of key-1"}},
		"all, two are the same key and one is gone": {rule(all, gone, authority(0), twin), by(0), outcome{image: gate.ImageUntrusted,
			deny: "image needs a signature of every authority, each by another signer, and key-0 and twin are satisfied by 1 signer alone"}},
		"any, and both are the same key": {rule(gate.Requirement{Count: 1}, authority(0), twin), by(0), outcome{image: gate.ImageVerified, authority: "key-0,twin"}},
		"more than there are authorities": {rule(two, authority(0)), by(0), outcome{image: gate.ImageUntrusted,
			deny: "image needs signatures by 2 different keys and has 1; none of any other authority"}},
		"a requirement that says nothing": {rule(gate.Requirement{}, authority(0)), nil, outcome{image: gate.ImageUnsigned,
			deny: "image has no signature that authority key-0 accepts"}},
		"any, one key gone, the other signed": {rule(gate.Requirement{Count: 1}, gone, authority(0)), by(0), outcome{image: gate.ImageVerified, authority: "key-0"}},
		"any, one key gone, the other did not": {rule(gate.Requirement{Count: 1}, gone, authority(0)), by(1), outcome{image: gate.ImageError,
			undecided: "the key of authority gone: Secret sluice-system/signer is not there"}},
		"all, one key gone, the other signed": {rule(all, gone, authority(0)), by(0), outcome{image: gate.ImageError,
			undecided: "the key of authority gone: Secret sluice-system/signer is not there"}},
		"all, one key gone, the other did not: that is enough to know": {rule(all, gone, authority(0)), by(1), outcome{image: gate.ImageUntrusted,
			deny: "image needs a signature of every authority, and has none of key-0"}},
		"two, one key gone, none signed": {rule(two, gone, authority(0)), by(1), outcome{image: gate.ImageUntrusted,
			deny: "image needs signatures by 2 different keys and has 0; none of key-0"}},
		"a key that is none": {rule(gate.Requirement{Count: 1}, gate.Authority{Name: "bad", PublicKeyPEM: "x"}), by(0), outcome{image: gate.ImageError,
			undecided: "the key of authority bad: not a PEM public key: it has to start with -----BEGIN PUBLIC KEY-----"}},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, evaluate(t, input(tc.rule, tc.signatures...)), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheck_JudgesWithoutSignaturesWhereTheRuleSaysSo(t *testing.T) {
	for title, tc := range map[string]struct {
		change func(*gate.Input)
		needed bool
		want   outcome
	}{
		"require none": {func(in *gate.Input) {
			in.Gate.Images[0].Require = gate.Requirement{None: true}
			in.Images[0].Digest = ""
		}, false, outcome{image: gate.ImageAllowed}},
		"require none, and the registry is down": {func(in *gate.Input) {
			in.Gate.Images[0].Require = gate.Requirement{None: true}
			in.Images[0].Unavailable = "down"
		}, false, outcome{image: gate.ImageAllowed}},
		"require none, but a digest": {func(in *gate.Input) {
			in.Gate.Images[0].Require = gate.Requirement{None: true}
			in.Gate.Images[0].RequireDigest = true
		}, false, outcome{image: gate.ImageUntrusted, deny: "image is named by tag alone, and gate prod demands a digest (requireDigest of rule registry.example.com/shop/**)"}},
		"no rule, denied": {func(in *gate.Input) { in.Images[0].Repository = "docker.io/library/nginx" }, false, outcome{image: gate.ImageUntrusted, deny: "no image rule of gate prod matches docker.io/library/nginx"}},
		"no rule, allowed": {func(in *gate.Input) {
			in.Images[0].Repository = "docker.io/library/nginx"
			in.Gate.DenyUnmatched = false
		}, false, outcome{image: gate.ImageAllowed}},
		"invalid, though unmatched images are allowed": {func(in *gate.Input) {
			in.Images[0].Repository, in.Images[0].Invalid = "", "no image is named"
			in.Gate.DenyUnmatched = false
		}, false, outcome{image: gate.ImageUntrusted, deny: "image reference cannot be read: no image is named"}},
		"a digest is demanded and only the registry knows it": {func(in *gate.Input) { in.Gate.Images[0].RequireDigest = true }, false,
			outcome{image: gate.ImageUntrusted, deny: "image is named by tag alone, and gate prod demands a digest (requireDigest of rule registry.example.com/shop/**)"}},
		"a digest is demanded and given": {func(in *gate.Input) { in.Gate.Images[0].RequireDigest = true; in.Images[0].Pinned = true }, true, outcome{image: gate.ImageVerified, authority: "key-0"}},
		"the registry is down":           {func(in *gate.Input) { in.Images[0].Unavailable = "down" }, true, outcome{image: gate.ImageError, undecided: "signatures of the image could not be read: down"}},
		"the digest was not resolved":    {func(in *gate.Input) { in.Images[0].Digest = "" }, true, outcome{image: gate.ImageError, undecided: `the image's digest is not known: "" is no digest: it is sha256: and 64 hexadecimal digits in lower case`}},
		"an earlier rule decides": {func(in *gate.Input) {
			in.Gate.Images = append([]gate.ImageRule{{Match: "*.example.com/**", Require: gate.Requirement{Count: 1}, Authorities: []gate.Authority{authority(3)}}}, in.Gate.Images...)
		}, true, outcome{image: gate.ImageUntrusted, deny: "image has no signature that authority key-3 accepts"}},
	} {
		t.Run(title, func(t *testing.T) {
			in := input(anyOf(0), claim(t, keys()[0], webDigest))
			tc.change(in)
			if got := Needed(in.Gate, in.Images[0]); got != tc.needed {
				t.Errorf("Needed is %v", got)
			}
			if diff := cmp.Diff(tc.want, evaluate(t, in), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheck_NamesEveryPlaceOfAnImage(t *testing.T) {
	in := input(anyOf(0))
	in.Images[0].Locations = append(in.Images[0].Locations, gate.Location{Object: "CronJob/shop/web-backup", Path: "spec.jobTemplate.spec.template.spec.containers[0].image"})
	f := New().Evaluate(t.Context(), in)
	if len(f.Deny) != 2 || f.Deny[0].Object != "Deployment/shop/web" || f.Deny[1].Object != "CronJob/shop/web-backup" {
		t.Errorf("got %+v", f.Deny)
	}
	in.Images[0].Locations = nil
	if f := New().Evaluate(t.Context(), in); len(f.Deny) != 1 || f.Deny[0].Object != "Workload/shop/web" {
		t.Errorf("without a place: %+v", f.Deny)
	}
}

func TestCheck_IsUndecidedWhenItsTimeIsUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := New().Evaluate(ctx, input(anyOf(0), claim(t, keys()[0], webDigest)))
	if len(f.Undecided) != 1 || len(f.Deny) != 0 || f.Images[0].Outcome != gate.ImageError {
		t.Errorf("got %+v", f)
	}
}

func TestCheck_KnowsTheKeysThatCosignMakes(t *testing.T) {
	for name, algorithm := range map[string]protocommon.PublicKeyDetails{
		"ECDSA P-256": protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256,
		"ECDSA P-384": protocommon.PublicKeyDetails_PKIX_ECDSA_P384_SHA_384,
		//lint:ignore SA1019 such signatures are in the field
		"ECDSA P-384 with SHA-256, as cosign before 2.5": protocommon.PublicKeyDetails_PKIX_ECDSA_P384_SHA_256,
		"RSA 2048":  protocommon.PublicKeyDetails_PKIX_RSA_PKCS1V15_2048_SHA256,
		"Ed25519":   protocommon.PublicKeyDetails_PKIX_ED25519,
		"Ed25519ph": protocommon.PublicKeyDetails_PKIX_ED25519_PH,
	} {
		t.Run(name, func(t *testing.T) {
			k, err := testkit.NewKeyOf(algorithm)
			if err != nil {
				t.Fatal(err)
			}
			if err := ValidateKey(k.PublicPEM); err != nil {
				t.Fatal(err)
			}
			rule := gate.ImageRule{Require: gate.Requirement{Count: 1}, Authorities: []gate.Authority{{Name: "a", PublicKeyPEM: k.PublicPEM}}}
			for _, s := range []gate.Signature{claim(t, k, webDigest), signatureBundle(t, k, webDigest)} {
				if got := evaluate(t, input(rule, s)); got.image != gate.ImageVerified {
					t.Errorf("%s: %+v", s.Format, got)
				}
			}
			for _, s := range []gate.Signature{claim(t, k, testkit.DigestOf("old")), signatureBundle(t, k, testkit.DigestOf("old"))} {
				if got := evaluate(t, input(rule, s)); got.image != gate.ImageUntrusted {
					t.Errorf("%s of another image: %+v", s.Format, got)
				}
			}
		})
	}
}

func TestValidateKey_SaysWhatIsWrong(t *testing.T) {
	pkix := func(public any) string {
		der, err := x509.MarshalPKIXPublicKey(public)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := keys()[0].PublicPEM
	for title, tc := range map[string]struct{ text, want string }{
		"nothing":                  {"", "not a PEM public key"},
		"a path":                   {"/etc/keys/cosign.pub", "not a PEM public key"},
		"a private key":            {keys()[0].PrivatePEM, "a private key was given: never put it in a Gate"},
		"a private key after it":   {good + keys()[0].PrivatePEM, "a private key was given: never put it in a Gate"},
		"a certificate":            {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), "a certificate was given"},
		"a PKCS 1 key":             {string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&short.PublicKey)})), `the block is a "RSA PUBLIC KEY"`},
		"two keys":                 {good + keys()[1].PublicPEM, "there is more than one key"},
		"a block that is cut":      {string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})), "not a PEM public key"},
		"an RSA key of 1024 bits":  {pkix(&short.PublicKey), "an RSA key of 1024 bits is too short"},
		"a curve that is not used": {pkix(&p521.PublicKey), "ECDSA over P-521 is not supported"},
	} {
		t.Run(title, func(t *testing.T) {
			if err := ValidateKey(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if err := ValidateKey("\n" + good + "\n"); err != nil {
		t.Error(err)
	}
}

// What anybody may push must never bring the process down.
func FuzzCheck(f *testing.F) {
	good, err := keys()[0].Bundle(webDigest, testkit.PredicateSign, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{}},"dsseEnvelope":{}}`))
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{},"messageSignature":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, format := range []gate.SignatureFormat{gate.FormatBundle, gate.FormatCosignTag} {
			s := gate.Signature{Format: format, Bundle: raw, Payload: raw, Base64: "c2ln"}
			if got := evaluate(t, input(anyOf(1), s)); got.image == gate.ImageVerified {
				t.Errorf("%q verified under a key that signed nothing", raw)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	for name, s := range map[string]gate.Signature{
		"claim":  claim(b, keys()[0], webDigest),
		"bundle": signatureBundle(b, keys()[0], webDigest),
	} {
		in := input(anyOf(0), s)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if f := New().Evaluate(b.Context(), in); f.Images[0].Outcome != gate.ImageVerified {
					b.Fatal(f)
				}
			}
		})
	}
}
