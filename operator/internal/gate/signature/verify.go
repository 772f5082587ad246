package signature

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// verifier is an authority, ready to verify with. An error says why it did not make
// what is stored.
type verifier interface {
	accepts(ctx context.Context, s *stored, image digest) (acceptance, error)
	// signed says whether the authority signed an envelope, whatever stands in it.
	signed(ctx context.Context, s *stored) bool
}

// acceptance says whose signature it is.
type acceptance struct {
	// signer tells one key or certificate identity from another.
	signer string
	// identity of the certificate, as "<subject> (<issuer>)".
	identity string
	// lacks names what the signature does not have and the authority does not ask for.
	lacks []string
}

// newVerifier says in its error why the authority cannot be used.
func newVerifier(a gate.Authority) (verifier, error) {
	switch {
	case a.Unavailable != "":
		return nil, errors.New(a.Unavailable)
	case a.Keyless != nil && a.PublicKeyPEM != "":
		return nil, errors.New("both a key and an identity are given: make two authorities of them")
	case a.Keyless != nil:
		return identities.get(a.Keyless)
	}
	return newKey(a.PublicKeyPEM)
}

// artifactOf is what sigstore-go holds the signature to: the claim's bytes. Of an envelope it
// verifies the signature alone: it would read the subjects of the statement once more, and
// take names of fields in any case.
func artifactOf(s *stored) verify.ArtifactPolicyOption {
	if s.claim != nil {
		return verify.WithArtifact(bytes.NewReader(s.claim))
	}
	return verify.WithoutArtifactUnsafe()
}

// concerns holds what has a good signature to the image's digest: the subjects of a statement,
// or a claim, and that to being a signature of an image. The repository that a claim names is
// not compared: an image that is copied to another registry stays the same image.
func (s *stored) concerns(image digest) error {
	if s.claim == nil {
		if s.statement == nil || !s.statement.isAbout(image) {
			return errors.New("its statement is about another image")
		}
		return nil
	}
	var claim payload.SimpleContainerImage
	if err := json.Unmarshal(s.claim, &claim); err != nil {
		return fmt.Errorf("reading the claim: %w", err)
	}
	switch {
	case claim.Critical.Image.DockerManifestDigest != image.text:
		return fmt.Errorf("it is about another image, %.80q", claim.Critical.Image.DockerManifestDigest)
	case claim.Critical.Type != payload.CosignSignatureType:
		return fmt.Errorf("the claim is of type %.60q", claim.Critical.Type)
	}
	return nil
}

// digest of an image in the two forms that verification wants.
type digest struct {
	text string
	raw  []byte
}

func newDigest(s string) (digest, error) {
	if err := digests.Validate(s); err != nil {
		return digest{}, err
	}
	raw, err := hex.DecodeString(digests.Hex(s))
	if err != nil {
		return digest{}, fmt.Errorf("reading digest %s: %w", s, err)
	}
	return digest{text: s, raw: raw}, nil
}
