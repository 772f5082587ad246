package testkit

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

// Vault signs like the transit engine of HashiCorp Vault, with one key, release, that stays
// there. Its token is VaultToken.
type Vault struct {
	// Server that listens.
	Server *httptest.Server
	// PublicPEM is the public half of the key.
	PublicPEM string

	key *ecdsa.PrivateKey
}

// VaultToken is what a Vault wants as VAULT_TOKEN.
const VaultToken = "letmein"

// NewVault starts one; Close stops it.
func NewVault(curve elliptic.Curve) (*Vault, error) {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	pem, err := cryptoutils.MarshalPublicKeyToPEM(key.Public())
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	v := &Vault{PublicPEM: string(pem), key: key}
	v.Server = httptest.NewServer(http.HandlerFunc(v.serve))
	return v, nil
}

// Close stops it.
func (v *Vault) Close() { v.Server.Close() }

func (v *Vault) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Vault-Token") != VaultToken {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if r.URL.Path == "/v1/transit/keys/release" {
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"latest_version": 1, "keys": map[string]any{"1": map[string]any{"public_key": v.PublicPEM}}}})
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
	hashed, err := base64.StdEncoding.DecodeString(asked.Input)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	signed, err := v.key.Sign(rand.Reader, hashed, crypto.Hash(0))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"signature": "vault:v1:" + base64.StdEncoding.EncodeToString(signed)}})
}
