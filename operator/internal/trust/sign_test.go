package trust_test

import (
	"crypto/elliptic"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// signingVault signs with a key that stays there.
func signingVault(t *testing.T, curve elliptic.Curve) (public string) {
	t.Helper()
	vault, err := testkit.NewVault(curve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(vault.Close)
	t.Setenv("VAULT_ADDR", vault.Server.URL)
	t.Setenv("VAULT_TOKEN", testkit.VaultToken)
	return vault.PublicPEM
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
		bundle, err := signer.Bundle(t.Context(), statement)
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
