package testkit

import (
	"encoding/json"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/cosign/v2/pkg/oci/mutate"
	ociremote "github.com/sigstore/cosign/v2/pkg/oci/remote"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	cosigntypes "github.com/sigstore/cosign/v2/pkg/types"

	"github.com/sluice-dev/sluice/operator/internal/digests"
)

// statement is an in-toto statement about digest. The predicate is any value with JSON;
// nil stands for {}.
func statement(digest, predicateType string, predicate any) ([]byte, error) {
	if predicate == nil {
		predicate = map[string]any{}
	}
	raw, err := json.Marshal(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       []any{map[string]any{"digest": map[string]string{"sha256": digests.Hex(digest)}}},
		"predicateType": predicateType,
		"predicate":     predicate,
	})
	if err != nil {
		return nil, fmt.Errorf("making the statement: %w", err)
	}
	return raw, nil
}

// Envelope returns a DSSE envelope (JSON) over an in-toto statement about digest.
func (k *Key) Envelope(digest, predicateType string, predicate any) ([]byte, error) {
	raw, err := statement(digest, predicateType, predicate)
	if err != nil {
		return nil, err
	}
	return k.SignEnvelope(inTotoMediaType, raw)
}

// AttestTag attests as cosign v2 does: under the tag sha256-<hex>.att. Attestations that
// are there already stay.
func (k *Key) AttestTag(repository, digest, predicateType string, predicate any, options ...remote.Option) error {
	envelope, err := k.Envelope(digest, predicateType, predicate)
	if err != nil {
		return err
	}
	return StoreEnvelope(repository, digest, envelope, map[string]string{"predicateType": predicateType}, options...)
}

// StoreEnvelope stores an envelope under the tag, whatever is in it, with annotations.
func StoreEnvelope(repository, digest string, envelope []byte, annotations map[string]string, options ...remote.Option) error {
	layer, err := static.NewAttestation(envelope, static.WithLayerMediaType(cosigntypes.DssePayloadType), static.WithAnnotations(annotations))
	if err != nil {
		return fmt.Errorf("attesting %s: %w", digest, err)
	}
	ref, err := name.NewDigest(repository + "@" + digest)
	if err != nil {
		return fmt.Errorf("attesting %s: %w", digest, err)
	}
	withOptions := ociremote.WithRemoteOptions(options...)
	entity, err := ociremote.SignedEntity(ref, withOptions)
	if err != nil {
		return fmt.Errorf("attesting %s: %w", digest, err)
	}
	entity, err = mutate.AttachAttestationToEntity(entity, layer)
	if err != nil {
		return fmt.Errorf("attesting %s: %w", digest, err)
	}
	if err := ociremote.WriteAttestations(ref.Repository, entity, withOptions); err != nil {
		return fmt.Errorf("writing the attestation of %s: %w", digest, err)
	}
	return nil
}

// AttestationTag is the tag that AttestTag writes to.
func AttestationTag(digest string) string { return FallbackTag(digest) + ".att" }
