package trust

import (
	"context"
	"errors"
)

// Offline reads roots from files, and nothing from elsewhere.
type Offline struct{ Loader }

// KMS refuses to ask a key management service.
func (*Offline) KMS(context.Context, string) (string, error) {
	return "", errors.New("no key management service is asked with --offline: give the public key itself, or check without --offline")
}

// PublicRoot refuses to fetch the root of the public Sigstore.
func (*Offline) PublicRoot(context.Context) (string, error) {
	return "", errors.New("the root of the public Sigstore is not fetched with --offline: name a trusted root, or check without --offline")
}
