package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	cosignbundle "github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/mutate"
	ociremote "github.com/sigstore/cosign/v2/pkg/oci/remote"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore/pkg/signature/payload"
	"google.golang.org/protobuf/encoding/protojson"
)

const inTotoMediaType = "application/vnd.in-toto+json"

// TagSignature is a layer of cosign's tag formats with its annotations.
type TagSignature struct {
	// Payload is the claim, or the DSSE envelope's JSON.
	Payload []byte
	// Base64 signature over a claim.
	Base64 string
	// Certificate and Chain in PEM; RekorBundle and Timestamp in JSON.
	Certificate, Chain, RekorBundle, Timestamp []byte
}

// SimpleSigning signs an image as cosign v2 does, without storing it.
func (s *Sigstore) SimpleSigning(by Identity, repository, digest string) (TagSignature, error) {
	ref, err := name.NewDigest(repository + "@" + digest)
	if err != nil {
		return TagSignature{}, fmt.Errorf("signing: %w", err)
	}
	claim, err := payload.Cosign{Image: ref}.MarshalJSON()
	if err != nil {
		return TagSignature{}, fmt.Errorf("signing: %w", err)
	}
	return s.SignClaim(by, claim)
}

// SignClaim is SimpleSigning over any text.
func (s *Sigstore) SignClaim(by Identity, claim []byte) (TagSignature, error) {
	key, m, err := s.begin(by)
	if err != nil {
		return TagSignature{}, err
	}
	m.claim = claim
	if m.signature, err = signWith(key, claim); err != nil {
		return TagSignature{}, err
	}
	t := TagSignature{Payload: claim, Base64: base64.StdEncoding.EncodeToString(m.signature)}
	return t, s.annotate(&t, by, m, m.signature)
}

// Attestation makes a statement as cosign v2 does, without storing it.
func (s *Sigstore) Attestation(by Identity, digest, predicateType string, predicate any) (TagSignature, error) {
	text, err := statement(digest, predicateType, predicate)
	if err != nil {
		return TagSignature{}, err
	}
	m, _, err := s.envelope(by, inTotoMediaType, text)
	if err != nil {
		return TagSignature{}, err
	}
	t := TagSignature{Payload: m.envelope}
	// In this format the whole envelope is timestamped.
	return t, s.annotate(&t, by, m, m.envelope)
}

// Bundle makes a sigstore bundle (v0.3, JSON), see Key.Bundle.
func (s *Sigstore) Bundle(by Identity, digest, predicateType string, predicate any) ([]byte, error) {
	text, err := statement(digest, predicateType, predicate)
	if err != nil {
		return nil, err
	}
	return s.SignPayload(by, inTotoMediaType, text)
}

// SignPayload makes a bundle around any DSSE payload.
func (s *Sigstore) SignPayload(by Identity, payloadType string, content []byte) ([]byte, error) {
	m, e, err := s.envelope(by, payloadType, content)
	if err != nil {
		return nil, err
	}
	b := &protobundle.Bundle{
		MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content: &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: m.certificate.Raw}},
		},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: content, PayloadType: e.PayloadType, Signatures: []*protodsse.Signature{{Sig: m.signature}},
		}},
	}
	if by.has(PartLog) {
		if by.Logged != nil {
			m.payload = by.Logged
		}
		entry, err := s.logged(m, by.Tiles)
		if err != nil {
			return nil, err
		}
		b.VerificationMaterial.TlogEntries = []*protorekor.TransparencyLogEntry{entry}
	}
	if by.has(PartTimestamp) {
		stamp, err := s.stamped(m.signature, by.Stamped)
		if err != nil {
			return nil, err
		}
		b.VerificationMaterial.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: stamp}},
		}
	}
	raw, err := protojson.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("writing the bundle: %w", err)
	}
	return raw, nil
}

// begin makes a key for one signature and has it certified.
func (s *Sigstore) begin(by Identity) (*ecdsa.PrivateKey, made, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, made{}, fmt.Errorf("making a key: %w", err)
	}
	c, err := s.certify(by, key.Public())
	return key, made{certificate: c}, err
}

func (s *Sigstore) envelope(by Identity, payloadType string, content []byte) (made, *dsse.Envelope, error) {
	key, m, err := s.begin(by)
	if err != nil {
		return made{}, nil, err
	}
	if m.signature, err = signWith(key, dsse.PAE(payloadType, content)); err != nil {
		return made{}, nil, err
	}
	m.payload = content
	e, raw, err := envelopeJSON(payloadType, content, m.signature)
	m.envelope = raw
	return m, e, err
}

func envelopeJSON(payloadType string, content, signature []byte) (*dsse.Envelope, []byte, error) {
	e := &dsse.Envelope{
		PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(content),
		Signatures: []dsse.Signature{{Sig: base64.StdEncoding.EncodeToString(signature)}},
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the envelope: %w", err)
	}
	return e, raw, nil
}

// annotate adds what cosign stores beside a signature.
func (s *Sigstore) annotate(t *TagSignature, by Identity, m made, stamped []byte) error {
	t.Certificate, t.Chain = certificatesPEM(m.certificate), certificatesPEM(s.ca.below, s.ca.root)
	if by.has(PartLog) {
		entry, err := s.logged(m, by.Tiles)
		if err != nil {
			return err
		}
		t.RekorBundle, err = json.Marshal(cosignbundle.RekorBundle{
			SignedEntryTimestamp: entry.GetInclusionPromise().GetSignedEntryTimestamp(),
			Payload: cosignbundle.RekorPayload{
				Body: base64.StdEncoding.EncodeToString(entry.CanonicalizedBody), IntegratedTime: entry.IntegratedTime,
				LogIndex: entry.LogIndex, LogID: hex.EncodeToString(entry.LogId.KeyId),
			},
		})
		if err != nil {
			return fmt.Errorf("writing the log entry: %w", err)
		}
	}
	if by.has(PartTimestamp) {
		stamp, err := s.stamped(stamped, by.Stamped)
		if err != nil {
			return err
		}
		if t.Timestamp, err = json.Marshal(cosignbundle.RFC3161Timestamp{SignedRFC3161Timestamp: stamp}); err != nil {
			return fmt.Errorf("writing the timestamp: %w", err)
		}
	}
	return nil
}

// SignBundle signs as cosign v3 does, see Key.SignBundle.
func (s *Sigstore) SignBundle(by Identity, repository, digest string, options ...remote.Option) error {
	return s.AttestBundle(by, repository, digest, PredicateSign, nil, options...)
}

// AttestBundle stores Bundle as a referrer of the image.
func (s *Sigstore) AttestBundle(by Identity, repository, digest, predicateType string, predicate any, options ...remote.Option) error {
	bundle, err := s.Bundle(by, digest, predicateType, predicate)
	if err != nil {
		return err
	}
	return StoreBundle(repository, digest, bundle, predicateType, options...)
}

// SignTag signs as cosign v2 does: under the tag sha256-<hex>.sig.
func (s *Sigstore) SignTag(by Identity, repository, digest string, options ...remote.Option) error {
	t, err := s.SimpleSigning(by, repository, digest)
	if err != nil {
		return err
	}
	return t.store(repository, digest, options...)
}

// AttestTag attests as cosign v2 does: under the tag sha256-<hex>.att.
func (s *Sigstore) AttestTag(by Identity, repository, digest, predicateType string, predicate any, options ...remote.Option) error {
	t, err := s.Attestation(by, digest, predicateType, predicate)
	if err != nil {
		return err
	}
	return t.store(repository, digest, options...)
}

// store adds the layer to those under the tag .sig, or .att if it is an envelope.
func (t TagSignature) store(repository, digest string, options ...remote.Option) error {
	layer, err := t.layer()
	if err != nil {
		return fmt.Errorf("signing %s: %w", digest, err)
	}
	ref, err := name.NewDigest(repository + "@" + digest)
	if err != nil {
		return fmt.Errorf("signing %s: %w", digest, err)
	}
	withOptions := ociremote.WithRemoteOptions(options...)
	entity, err := ociremote.SignedEntity(ref, withOptions)
	if err != nil {
		return fmt.Errorf("signing %s: %w", digest, err)
	}
	attach, write := mutate.AttachSignatureToEntity, ociremote.WriteSignatures
	if t.Base64 == "" {
		attach, write = mutate.AttachAttestationToEntity, ociremote.WriteAttestations
	}
	if entity, err = attach(entity, layer); err != nil {
		return fmt.Errorf("signing %s: %w", digest, err)
	}
	if err := write(ref.Repository, entity, withOptions); err != nil {
		return fmt.Errorf("writing the signature of %s: %w", digest, err)
	}
	return nil
}

func (t TagSignature) layer() (oci.Signature, error) {
	var options []static.Option
	if t.Certificate != nil {
		options = append(options, static.WithCertChain(t.Certificate, t.Chain))
	}
	if t.RekorBundle != nil {
		var b cosignbundle.RekorBundle
		if err := json.Unmarshal(t.RekorBundle, &b); err != nil {
			return nil, fmt.Errorf("reading the log entry: %w", err)
		}
		options = append(options, static.WithBundle(&b))
	}
	if t.Timestamp != nil {
		var stamp cosignbundle.RFC3161Timestamp
		if err := json.Unmarshal(t.Timestamp, &stamp); err != nil {
			return nil, fmt.Errorf("reading the timestamp: %w", err)
		}
		options = append(options, static.WithRFC3161Timestamp(&stamp))
	}
	return static.NewSignature(t.Payload, t.Base64, options...)
}
