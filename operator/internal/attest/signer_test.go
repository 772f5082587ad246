package attest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// What a key of any kind signs, the gate accepts by its public half.
func TestSigner_IsVerifiedByTheGate(t *testing.T) {
	const kind = "https://slsa.dev/verification_summary/v1"
	digest := testkit.DigestOf("app")
	statement := []byte(`{"_type":"https://in-toto.io/Statement/v1","predicateType":"` + kind + `","subject":[{"digest":{"sha256":"` + strings.TrimPrefix(digest, "sha256:") + `"}}],"predicate":{}}`)
	for name, algorithm := range map[string]protocommon.PublicKeyDetails{
		"ECDSA P-256": protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256,
		"ECDSA P-384": protocommon.PublicKeyDetails_PKIX_ECDSA_P384_SHA_384,
		"RSA 2048":    protocommon.PublicKeyDetails_PKIX_RSA_PKCS1V15_2048_SHA256,
		"Ed25519":     protocommon.PublicKeyDetails_PKIX_ED25519,
	} {
		key, err := testkit.NewKeyOf(algorithm)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := NewSigner([]byte(key.PrivatePEM), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		bundle, err := signer.Bundle(t.Context(), statement)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		image := &gate.Image{Digest: digest, Attestations: []gate.Signature{{Format: gate.FormatBundle, Bundle: bundle}}}
		got := signature.New().Statements(t.Context(), []gate.Authority{{Name: "k", PublicKeyPEM: key.PublicPEM}}, image, kind)
		if len(got.Accepted) != 1 || string(got.Accepted[0].Payload) != string(statement) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNewSigner_SaysWhatIsWrongAndShowsNothing(t *testing.T) {
	key, err := testkit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, password, says string }{
		"no PEM":         {"hunter2", "", "no key in PEM"},
		"a public key":   {key.PublicPEM, "", "public key"},
		"wrong password": {key.PrivatePEM, "hunter2", "its password is another"},
		"too large":      {strings.Repeat("hunter2", 10_000), "", "limits.PrivateKeyBytes"},
		"not a key":      {"-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n", "", "cannot be read"},
	} {
		_, err := NewSigner([]byte(c.text), []byte(c.password))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a key signs that no Gate can name is evidence for nobody, and is not found again: it
// would be written with every restart.
func TestNewSigner_RefusesKeysThatNoGateAccepts(t *testing.T) {
	for name, c := range map[string]struct {
		make  func() (crypto.Signer, error)
		takes bool
	}{
		"ECDSA P-384": {func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) }, true},
		"ECDSA P-521": {func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) }, false},
		"ECDSA P-224": {func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P224(), rand.Reader) }, false},
		"RSA 3072":    {func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 3072) }, true},
		"RSA 1024":    {func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 1024) }, false},
	} {
		key, err := c.make()
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		public, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		if err := signature.ValidateKey(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))); (err == nil) != c.takes {
			t.Errorf("%s: a Gate says %v", name, err)
		}
		if _, err := NewSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), nil); (err == nil) != c.takes {
			t.Errorf("%s: %v", name, err)
		}
	}
}
