package signature

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

const minRSABits = 2048

// ValidateKey says why a text cannot be an authority's key. Keys are PEM blocks of type
// PUBLIC KEY (PKIX), as cosign.pub is: ECDSA P-256 or P-384, RSA of at least 2048 bits,
// or Ed25519.
func ValidateKey(text string) error {
	_, err := parsePublicKey(text)
	return err
}

func parsePublicKey(text string) (crypto.PublicKey, error) {
	if strings.Contains(text, "PRIVATE KEY-----") {
		return nil, errors.New("a private key was given: never put it in a Gate; replace the key pair, and give its public half, cosign.pub")
	}
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil:
		return nil, errors.New("not a PEM public key: it has to start with -----BEGIN PUBLIC KEY-----")
	case block.Type == "CERTIFICATE":
		return nil, errors.New("a certificate was given: an authority's key is a PUBLIC KEY block")
	case block.Type != "PUBLIC KEY":
		return nil, fmt.Errorf("not a PEM public key: the block is a %.40q and has to be a PUBLIC KEY (PKIX)", block.Type)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("there is more than one key: list each as an authority of its own")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("not a PEM public key: %w", err)
	}
	return public, checkStrength(public)
}

func checkStrength(public crypto.PublicKey) error {
	switch public := public.(type) {
	case *ecdsa.PublicKey:
		if public.Curve == elliptic.P256() || public.Curve == elliptic.P384() {
			return nil
		}
		return fmt.Errorf("ECDSA over %s is not supported: use P-256 or P-384", public.Params().Name)
	case *rsa.PublicKey:
		if public.N.BitLen() >= minRSABits {
			return nil
		}
		return fmt.Errorf("an RSA key of %d bits is too short: use at least %d", public.N.BitLen(), minRSABits)
	case ed25519.PublicKey:
		return nil
	}
	return fmt.Errorf("keys of type %T are not supported: use ECDSA P-256 or P-384, RSA or Ed25519", public)
}

// key is an authority's key, ready to verify with.
type key struct {
	// id is the same for two authorities with the same key.
	id       string
	verifier *verify.Verifier
}

func newKey(text string) (*key, error) {
	public, err := parsePublicKey(text)
	if err != nil {
		return nil, err
	}
	schemes, err := verifiersOf(public)
	if err != nil {
		return nil, fmt.Errorf("the key cannot be used: %w", err)
	}
	forever := root.NewExpiringKey(schemes, time.Time{}, time.Time{})
	trusted := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) { return forever, nil })
	// A key that is given by its owner needs no log and no time to be trusted.
	verifier, err := verify.NewVerifier(trusted, verify.WithNoObserverTimestamps())
	if err != nil {
		return nil, fmt.Errorf("the key cannot be used: %w", err)
	}
	id, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("the key cannot be used: %w", err)
	}
	return &key{id: string(id), verifier: verifier}, nil
}

// SameKey says whether two texts are one key, however each is written.
func SameKey(a, b string) bool {
	one, err := parsePublicKey(a)
	if err != nil {
		return false
	}
	other, err := parsePublicKey(b)
	if err != nil {
		return false
	}
	equal, ok := one.(interface{ Equal(crypto.PublicKey) bool })
	return ok && equal.Equal(other)
}

// accepts says whether the key made this signature or attestation. What else came with
// it does not matter: the key is enough.
func (k *key) accepts(_ context.Context, s *stored, image digest) (acceptance, error) {
	if err := s.cannotBeAccepted(); err != nil {
		return acceptance{}, err
	}
	if err := k.verify(s, artifactOf(s)); err != nil {
		return acceptance{}, err
	}
	return acceptance{signer: k.id}, s.concerns(image)
}

func (k *key) signed(_ context.Context, s *stored) bool {
	return k.verify(s, verify.WithoutArtifactUnsafe()) == nil
}

func (k *key) verify(s *stored, artifact verify.ArtifactPolicyOption) error {
	if !s.keyed {
		return errors.New("it is signed with a certificate and not with a key")
	}
	return guarded(func() error {
		_, err := k.verifier.Verify(view{stored: s, by: byKey{}}, verify.NewPolicy(artifact, verify.WithKey()))
		return err
	})
}

// verifiersOf lists the schemes that cosign's versions sign with under one kind of key:
// P-384 with SHA-256 first and with SHA-384 since v2.5, Ed25519 over the message first
// and over its SHA-512 since. They are equally strong and all need the same private key.
func verifiersOf(public crypto.PublicKey) (signature.Verifier, error) {
	var all anyScheme
	add := func(v signature.Verifier, err error) error {
		if err == nil {
			all = append(all, v)
		}
		return err
	}
	var err error
	switch public := public.(type) {
	case *ecdsa.PublicKey:
		err = add(signature.LoadECDSAVerifier(public, crypto.SHA256))
		if err == nil && public.Curve == elliptic.P384() {
			err = add(signature.LoadECDSAVerifier(public, crypto.SHA384))
		}
	case *rsa.PublicKey:
		err = add(signature.LoadRSAPKCS1v15Verifier(public, crypto.SHA256))
	case ed25519.PublicKey:
		if err = add(signature.LoadED25519Verifier(public)); err == nil {
			err = add(signature.LoadDefaultVerifier(public, options.WithED25519ph()))
		}
	}
	if err != nil {
		return nil, err
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return all, nil
}

// anyScheme accepts what one of its verifiers accepts; all are of one key.
type anyScheme []signature.Verifier

func (a anyScheme) PublicKey(opts ...signature.PublicKeyOption) (crypto.PublicKey, error) {
	return a[0].PublicKey(opts...)
}

func (a anyScheme) VerifySignature(sig, message io.Reader, opts ...signature.VerifyOption) error {
	s, err := io.ReadAll(sig)
	if err != nil {
		return fmt.Errorf("reading the signature: %w", err)
	}
	m, err := io.ReadAll(message)
	if err != nil {
		return fmt.Errorf("reading the message: %w", err)
	}
	for _, v := range a {
		if err = v.VerifySignature(bytes.NewReader(s), bytes.NewReader(m), opts...); err == nil {
			return nil
		}
	}
	return err
}
