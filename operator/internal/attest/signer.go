// Package attest signs evidence: with a private key that is here or in a key management
// service, or with an identity that a Sigstore instance certifies.
package attest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

const statementMediaType = "application/vnd.in-toto+json"

// Signer signs with one key.
type Signer struct {
	key     signature.Signer
	details signature.AlgorithmDetails
	half    crypto.PublicKey
	public  string
}

// PublicKeyPEM is the public half of the key, as authorities name it.
func (s *Signer) PublicKeyPEM() string { return s.public }

// NewSigner reads a private key in PEM: as cosign stores it, encrypted with a password, or
// as PKCS #8 without one. Errors never show any of it.
func NewSigner(text, password []byte) (*Signer, error) {
	if len(text) > limits.PrivateKeyBytes {
		return nil, fmt.Errorf("the key has more than %d bytes (limits.PrivateKeyBytes)", limits.PrivateKeyBytes)
	}
	block, _ := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("it is no key in PEM: give cosign.key, as `cosign generate-key-pair` writes it")
	case block.Type == "PUBLIC KEY":
		return nil, errors.New("it is a public key: give the private half, cosign.key")
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(text, func(bool) ([]byte, error) { return append([]byte{}, password...), nil })
	if err != nil {
		return nil, errors.New("it cannot be read: it is no private key that cosign makes, or its password is another")
	}
	holder, ok := private.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("keys of type %T do not sign", private)
	}
	s, err := of(holder.Public())
	if err != nil {
		return nil, err
	}
	if s.key, err = signature.LoadSignerVerifierFromAlgorithmDetails(private, s.details); err != nil {
		return nil, fmt.Errorf("it cannot be used: %w", err)
	}
	return s, nil
}

// NewRemoteSigner signs with a key that is elsewhere and stays there. load is asked for it
// with the hash that keys of its kind are verified with; 0 where that is none.
func NewRemoteSigner(public crypto.PublicKey, load func(crypto.Hash) (signature.Signer, error)) (*Signer, error) {
	s, err := of(public)
	if err != nil {
		return nil, err
	}
	if s.key, err = load(s.details.GetHashType()); err != nil {
		return nil, fmt.Errorf("it cannot be used: %w", err)
	}
	return s, nil
}

func of(public crypto.PublicKey) (*Signer, error) {
	// Of what can sign, the one kind that no Gate accepts.
	if key, ok := public.(*ecdsa.PublicKey); ok && key.Curve == elliptic.P521() {
		return nil, errors.New("it cannot be used: no Gate accepts ECDSA over P-521; make one over P-256 or P-384")
	}
	details, err := signature.GetDefaultAlgorithmDetails(public)
	if err != nil {
		return nil, fmt.Errorf("it cannot be used: %w", err)
	}
	pem, err := cryptoutils.MarshalPublicKeyToPEM(public)
	if err != nil {
		return nil, fmt.Errorf("it cannot be used: %w", err)
	}
	return &Signer{details: details, half: public, public: string(pem)}, nil
}

// Bundle is a sigstore bundle (v0.3, JSON) around an in-toto statement, without a time or
// a log entry of others.
func (s *Signer) Bundle(ctx context.Context, statement []byte) ([]byte, error) {
	bundle, err := sign.Bundle(&sign.DSSEData{Data: statement, PayloadType: statementMediaType}, keypair{s}, sign.BundleOptions{Context: ctx})
	if err != nil {
		return nil, fmt.Errorf("signing evidence: %w", err)
	}
	raw, err := protojson.Marshal(bundle)
	if err != nil {
		return nil, fmt.Errorf("signing evidence: %w", err)
	}
	return raw, nil
}

// Authority is who a Gate has to name for what this signs: the key.
func (s *Signer) Authority([]byte) (gate.Authority, error) {
	return gate.Authority{Name: "own", PublicKeyPEM: s.public}, nil
}

// keypair lets sigstore-go sign with a Signer.
type keypair struct{ *Signer }

func (k keypair) GetHashAlgorithm() protocommon.HashAlgorithm { return k.details.GetProtoHashType() }

func (k keypair) GetSigningAlgorithm() protocommon.PublicKeyDetails {
	return k.details.GetSignatureAlgorithm()
}

// GetHint is what cosign writes: the SHA-256 of the public key, in base64.
func (k keypair) GetHint() []byte {
	block, _ := pem.Decode([]byte(k.public))
	sum := sha256.Sum256(block.Bytes)
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

func (k keypair) GetKeyAlgorithm() string {
	switch k.details.GetKeyType() {
	case signature.RSA:
		return "RSA"
	case signature.ED25519:
		return "ED25519"
	default:
		return "ECDSA"
	}
}

func (k keypair) GetPublicKey() crypto.PublicKey { return k.half }

func (k keypair) GetPublicKeyPem() (string, error) { return k.public, nil }

func (k keypair) SignData(_ context.Context, data []byte) (signed, hashed []byte, err error) {
	if signed, err = k.key.SignMessage(bytes.NewReader(data)); err != nil {
		return nil, nil, fmt.Errorf("signing: %w", err)
	}
	hash := k.details.GetHashType()
	if hash == crypto.Hash(0) {
		return signed, data, nil
	}
	h := hash.New()
	h.Write(data)
	return signed, h.Sum(nil), nil
}
