package testkit

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	ociremote "github.com/sigstore/cosign/v2/pkg/oci/remote"
	cosigntypes "github.com/sigstore/cosign/v2/pkg/types"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-dev/sluice/operator/internal/digests"
)

// PredicateSign is the predicate type of an image signature in a bundle.
const PredicateSign = cosigntypes.CosignSignPredicateType

// Key is a signing key pair.
type Key struct {
	// PublicPEM is the public key, PKIX.
	PublicPEM string
	// PrivatePEM is the private key as cosign stores it, encrypted with an empty
	// password.
	PrivatePEM string

	signer  signature.SignerVerifier
	details signature.AlgorithmDetails
}

// NewKey makes an ECDSA P-256 key pair, as `cosign generate-key-pair` does.
func NewKey() (*Key, error) { return NewKeyOf(protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256) }

// NewKeyOf makes a key pair of another algorithm.
func NewKeyOf(algorithm protocommon.PublicKeyDetails) (*Key, error) {
	details, err := signature.GetAlgorithmDetails(algorithm)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	noPassword := func(bool) ([]byte, error) { return nil, nil }
	pair, err := cosign.GenerateKeyPairWithAlgorithm(&details, noPassword)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	signer, err := loadSigner(pair.PrivateBytes, details)
	if err != nil {
		return nil, fmt.Errorf("loading the key just made: %w", err)
	}
	return &Key{PublicPEM: string(pair.PublicBytes), PrivatePEM: string(pair.PrivateBytes), signer: signer, details: details}, nil
}

// loadSigner signs in the scheme that was asked for; cosign's own loader picks the
// scheme by the kind of key alone.
func loadSigner(privatePEM []byte, details signature.AlgorithmDetails) (signature.SignerVerifier, error) {
	block, _ := pem.Decode(privatePEM)
	der, err := encrypted.Decrypt(block.Bytes, nil)
	if err != nil {
		return nil, fmt.Errorf("decrypting: %w", err)
	}
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}
	return signature.LoadSignerVerifierFromAlgorithmDetails(private, details)
}

// SignMessage signs any bytes, in the key's own scheme.
func (k *Key) SignMessage(message []byte) ([]byte, error) {
	raw, err := k.signer.SignMessage(bytes.NewReader(message))
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return raw, nil
}

// SimpleSigning returns the payload that cosign signs for an image, and the signature in
// base64.
func (k *Key) SimpleSigning(repository, digest string) (claim []byte, base64Signature string, err error) {
	ref, err := name.NewDigest(repository + "@" + digest)
	if err != nil {
		return nil, "", fmt.Errorf("signing: %w", err)
	}
	claim, err = payload.Cosign{Image: ref}.MarshalJSON()
	if err != nil {
		return nil, "", fmt.Errorf("signing: %w", err)
	}
	raw, err := k.SignMessage(claim)
	if err != nil {
		return nil, "", err
	}
	return claim, base64.StdEncoding.EncodeToString(raw), nil
}

// SignTag signs as cosign v2 does: under the tag sha256-<hex>.sig. Signatures that are
// there already stay.
func (k *Key) SignTag(repository, digest string, options ...remote.Option) error {
	claim, sig, err := k.SimpleSigning(repository, digest)
	if err != nil {
		return err
	}
	return TagSignature{Payload: claim, Base64: sig}.store(repository, digest, options...)
}

// SignEnvelope returns a DSSE envelope (JSON) around any payload.
func (k *Key) SignEnvelope(payloadType string, content []byte) ([]byte, error) {
	sig, err := k.SignMessage(dsse.PAE(payloadType, content))
	if err != nil {
		return nil, err
	}
	_, raw, err := envelopeJSON(payloadType, content, sig)
	return raw, err
}

// Bundle returns a sigstore bundle (v0.3, JSON) with a DSSE envelope over an in-toto
// statement about digest. PredicateSign makes it an image signature, any other type an
// attestation. The predicate is any value with JSON; nil stands for {}.
func (k *Key) Bundle(digest, predicateType string, predicate any) ([]byte, error) {
	text, err := statement(digest, predicateType, predicate)
	if err != nil {
		return nil, err
	}
	return k.SignPayload(inTotoMediaType, text)
}

// SignPayload returns a bundle with a DSSE envelope around any payload.
func (k *Key) SignPayload(payloadType string, content []byte) ([]byte, error) {
	return k.bundle(&sign.DSSEData{Data: content, PayloadType: payloadType})
}

// MessageBundle returns a sigstore bundle with a plain signature over data, as `cosign
// sign-blob` makes it.
func (k *Key) MessageBundle(data []byte) ([]byte, error) {
	return k.bundle(&sign.PlainData{Data: data})
}

func (k *Key) bundle(content sign.Content) ([]byte, error) {
	bundle, err := sign.Bundle(content, keypair{k}, sign.BundleOptions{})
	if err != nil {
		return nil, fmt.Errorf("making the bundle: %w", err)
	}
	raw, err := protojson.Marshal(bundle)
	if err != nil {
		return nil, fmt.Errorf("writing the bundle: %w", err)
	}
	return raw, nil
}

// SignBundle signs as cosign v3 does: a bundle in an OCI 1.1 referrer. On a registry
// without the referrers API the fallback tag is kept.
func (k *Key) SignBundle(repository, digest string, options ...remote.Option) error {
	return k.AttestBundle(repository, digest, PredicateSign, nil, options...)
}

// AttestBundle stores Bundle as a referrer of the image.
func (k *Key) AttestBundle(repository, digest, predicateType string, predicate any, options ...remote.Option) error {
	text, err := statement(digest, predicateType, predicate)
	if err != nil {
		return err
	}
	return k.AttestStatement(repository, digest, predicateType, text, options...)
}

// AttestStatement stores a bundle around an in-toto statement as a referrer of the image,
// whatever the statement says.
func (k *Key) AttestStatement(repository, digest, predicateType string, statement []byte, options ...remote.Option) error {
	bundle, err := k.SignPayload(inTotoMediaType, statement)
	if err != nil {
		return err
	}
	return StoreBundle(repository, digest, bundle, predicateType, options...)
}

// StoreBundle stores a bundle as a referrer of the image, whatever is in it.
func StoreBundle(repository, digest string, bundle []byte, predicateType string, options ...remote.Option) error {
	ref, err := name.NewDigest(repository + "@" + digest)
	if err != nil {
		return fmt.Errorf("storing the bundle: %w", err)
	}
	err = ociremote.WriteAttestationNewBundleFormat(ref, bundle, predicateType, ociremote.WithRemoteOptions(options...))
	if err != nil {
		return fmt.Errorf("storing the bundle for %s: %w", digest, err)
	}
	return nil
}

// keypair lets sigstore-go sign with a Key.
type keypair struct{ key *Key }

func (p keypair) GetHashAlgorithm() protocommon.HashAlgorithm {
	return p.key.details.GetProtoHashType()
}

func (p keypair) GetSigningAlgorithm() protocommon.PublicKeyDetails {
	return p.key.details.GetSignatureAlgorithm()
}

// GetHint is what cosign writes: the SHA-256 of the public key in base64.
func (p keypair) GetHint() []byte {
	block, _ := pem.Decode([]byte(p.key.PublicPEM))
	sum := sha256.Sum256(block.Bytes)
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

func (p keypair) GetKeyAlgorithm() string {
	switch p.key.details.GetKeyType() {
	case signature.RSA:
		return "RSA"
	case signature.ED25519:
		return "ED25519"
	default:
		return "ECDSA"
	}
}

func (p keypair) GetPublicKey() crypto.PublicKey {
	public, err := p.key.signer.PublicKey()
	if err != nil {
		return nil
	}
	return public
}

func (p keypair) GetPublicKeyPem() (string, error) { return p.key.PublicPEM, nil }

func (p keypair) SignData(_ context.Context, data []byte) (signed, hashed []byte, err error) {
	signed, err = p.key.SignMessage(data)
	if err != nil {
		return nil, nil, err
	}
	hash := p.key.details.GetHashType()
	if hash == crypto.Hash(0) {
		return signed, data, nil
	}
	h := hash.New()
	h.Write(data)
	return signed, h.Sum(nil), nil
}

// SignatureTag is the tag that SignTag writes to.
func SignatureTag(digest string) string { return FallbackTag(digest) + ".sig" }

// FallbackTag is the tag that lists referrers where a registry has no API for it.
func FallbackTag(digest string) string { return strings.Replace(digest, ":", "-", 1) }

// DigestOf is the digest of a text: one that no image here has.
func DigestOf(text string) string {
	return digests.Of([]byte(text))
}
