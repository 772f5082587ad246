package trust_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// signingVault signs like the transit engine, with a key that stays there.
func signingVault(t *testing.T, curve elliptic.Curve) (public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := cryptoutils.MarshalPublicKeyToPEM(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/transit/keys/release" {
			_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"latest_version": 1, "keys": map[string]any{"1": map[string]any{"public_key": string(pem)}}}})
			return
		}
		var asked struct {
			Input     string `json:"input"`
			Prehashed bool   `json:"prehashed"`
		}
		if !strings.HasPrefix(r.URL.Path, "/v1/transit/sign/release/sha2-") || json.NewDecoder(r.Body).Decode(&asked) != nil || !asked.Prehashed {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		hashed, _ := base64.StdEncoding.DecodeString(asked.Input)
		signed, _ := key.Sign(rand.Reader, hashed, crypto.Hash(0))
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"signature": "vault:v1:" + base64.StdEncoding.EncodeToString(signed)}})
	}))
	t.Cleanup(server.Close)
	t.Setenv("VAULT_ADDR", server.URL)
	t.Setenv("VAULT_TOKEN", "letmein")
	return string(pem)
}

// What Vault signs, the gate accepts by the public half, with the hash that keys of its
// kind are verified with.
func TestLoader_SignsWithAKeyInVault(t *testing.T) {
	const kind = "https://slsa.dev/verification_summary/v1"
	digest := "sha256:" + strings.Repeat("a", 64)
	statement := []byte(`{"_type":"https://in-toto.io/Statement/v1","predicateType":"` + kind + `","subject":[{"digest":{"sha256":"` + strings.Repeat("a", 64) + `"}}],"predicate":{}}`)
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384()} {
		public := signingVault(t, curve)
		signer, err := trust.New(trust.Options{}).Signer(t.Context(), "hashivault://release")
		if err != nil {
			t.Fatal(err)
		}
		if signer.PublicKeyPEM() != public {
			t.Errorf("its public half is %s", signer.PublicKeyPEM())
		}
		bundle, err := signer.Bundle(statement)
		if err != nil {
			t.Fatal(err)
		}
		image := &gate.Image{Digest: digest, Attestations: []gate.Signature{{Format: gate.FormatBundle, Bundle: bundle}}}
		got := signature.New().Statements(t.Context(), []gate.Authority{{Name: "k", PublicKeyPEM: public}}, image, kind)
		if len(got.Accepted) != 1 {
			t.Errorf("%s: %+v", curve.Params().Name, got)
		}
	}
}

func TestValidateKMS_KnowsWhatItCanAsk(t *testing.T) {
	for uri, usable := range map[string]bool{
		"hashivault://prod": true, "hashivault://": false, "hashivault://a/b": false, "awskms://alias/prod": false, "evil://prod": false, "prod": false,
	} {
		if err := trust.ValidateKMS(uri); (err == nil) != usable {
			t.Errorf("%s: %v", uri, err)
		}
	}
}
