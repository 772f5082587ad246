package signature

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	cosigntypes "github.com/sigstore/cosign/v2/pkg/types"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature/payload"
	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// signed is one signature of an image, read but not verified.
type signed struct {
	claim  oci.Signature
	bundle *bundle.Bundle
}

// readSignatures reads what the registry holds. What cannot be read is kept as a
// signature that nobody accepts: anyone who may push can put garbage there, and garbage
// must neither stop a good image nor pass for no signature at all. What says that it is
// something other than an image signature is left out.
func readSignatures(raw []gate.Signature) []signed {
	out := make([]signed, 0, len(raw))
	for _, r := range raw {
		switch r.Format {
		case gate.FormatCosignTag:
			claim, err := static.NewSignature(r.Payload, r.Base64)
			if err != nil {
				claim = nil
			}
			out = append(out, signed{claim: claim})
		case gate.FormatBundle:
			var b bundle.Bundle
			if err := b.UnmarshalJSON(r.Bundle); err != nil {
				out = append(out, signed{})
			} else if isImageSignature(&b) {
				out = append(out, signed{bundle: &b})
			}
		default:
			out = append(out, signed{})
		}
	}
	return out
}

// isImageSignature holds for a DSSE envelope around an in-toto statement with cosign's
// predicate for signatures. Every other statement is an attestation, even if the same
// key made it: that a scan was run, or that it failed, does not say that the image may
// run. A plain signature over the manifest's bytes is none either. cosign makes those of
// files (sign-blob), so the key's owner vouched for a file and not for an image.
func isImageSignature(b *bundle.Bundle) bool {
	envelope, err := b.Envelope()
	if err != nil || envelope == nil {
		return false
	}
	statement, err := envelope.Statement()
	return err == nil && statement.GetPredicateType() == cosigntypes.CosignSignPredicateType
}

// accepts says whether the key made this signature over this image.
func (k *key) accepts(ctx context.Context, s signed, image digest) bool {
	switch {
	case s.claim != nil:
		_, err := cosign.VerifyImageSignature(ctx, s.claim, image.hash, &cosign.CheckOpts{
			SigVerifier: k.claims, ClaimVerifier: verifyClaim, IgnoreTlog: true, IgnoreSCT: true, Offline: true,
		})
		return err == nil
	case s.bundle != nil:
		result, err := k.bundles.Verify(s.bundle, verify.NewPolicy(verify.WithArtifactDigest("sha256", image.raw), verify.WithKey()))
		// The type is looked at again in what was verified, not in what was read.
		return err == nil && result.Statement.GetPredicateType() == cosigntypes.CosignSignPredicateType
	}
	return false
}

// verifyClaim holds the payload to the image's digest and to being a signature of an
// image. The repository it names is not compared: an image that is copied to another
// registry stays the same image.
func verifyClaim(sig oci.Signature, image v1.Hash, annotations map[string]any) error {
	if err := cosign.SimpleClaimVerifier(sig, image, annotations); err != nil {
		return fmt.Errorf("reading the claim: %w", err)
	}
	raw, err := sig.Payload()
	if err != nil {
		return fmt.Errorf("reading the claim: %w", err)
	}
	var claim payload.SimpleContainerImage
	if err := json.Unmarshal(raw, &claim); err != nil {
		return fmt.Errorf("reading the claim: %w", err)
	}
	if claim.Critical.Type != payload.CosignSignatureType {
		return fmt.Errorf("the claim is of type %.60q", claim.Critical.Type)
	}
	return nil
}

// digest of an image in the two forms that verification wants.
type digest struct {
	hash v1.Hash
	raw  []byte
}

func newDigest(s string) (digest, error) {
	hash, err := v1.NewHash(s)
	if err != nil {
		return digest{}, fmt.Errorf("reading digest %.80q: %w", s, err)
	}
	if hash.Algorithm != "sha256" {
		return digest{}, errors.New("digests have to be SHA-256")
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(s, "sha256:"))
	if err != nil {
		return digest{}, fmt.Errorf("reading digest %.80q: %w", s, err)
	}
	return digest{hash: hash, raw: raw}, nil
}
