package trust

import (
	"context"
	"crypto"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms"
	"github.com/sigstore/sigstore/pkg/signature/kms/hashivault" // also the provider for hashivault://

	"github.com/sluice-dev/sluice/operator/internal/attest"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// ValidateKMS says why a URI names no key in a key management service.
func ValidateKMS(uri string) error {
	if err := provided(uri); err != nil {
		return err
	}
	return hashivault.ValidReference(uri)
}

// provided says whether somebody serves a URI: kms.Get starts a program named after a
// scheme that it does not know.
func provided(uri string) error {
	known := slices.Sorted(slices.Values(kms.SupportedProviders())) // as they come they are in no order
	if !slices.ContainsFunc(known, func(p string) bool { return strings.HasPrefix(uri, p) }) {
		return fmt.Errorf("no key management service for %q; there are %s", uri, strings.Join(known, ", "))
	}
	return nil
}

// Signer signs with a key in a key management service, which the key does not leave. Each
// signature takes at most limits.TrustCall.
func (l *Loader) Signer(ctx context.Context, uri string) (*attest.Signer, error) {
	pem, err := l.KMS(ctx, uri)
	if err != nil {
		return nil, err
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey([]byte(pem))
	if err != nil {
		return nil, fmt.Errorf("public half of %s: %w", uri, err)
	}
	return attest.NewRemoteSigner(public, func(hash crypto.Hash) (signature.Signer, error) {
		key, err := kms.Get(context.Background(), uri, hash)
		if err != nil {
			return nil, err
		}
		return inTime{key}, nil
	})
}

// inTime gives up on a service that does not answer. Its client heeds no context: the call
// is left to end by itself.
type inTime struct{ signature.Signer }

// SignMessage implements signature.Signer.
func (s inTime) SignMessage(message io.Reader, options ...signature.SignOption) ([]byte, error) {
	type answer struct {
		signed []byte
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		signed, err := s.Signer.SignMessage(message, options...)
		done <- answer{signed, err}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), limits.TrustCall)
	defer cancel()
	select {
	case a := <-done:
		return a.signed, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer within %s (limits.TrustCall)", limits.TrustCall)
	}
}
