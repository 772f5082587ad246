package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	ociremote "github.com/sigstore/cosign/v2/pkg/oci/remote"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Attach stores a sigstore bundle beside repository@digest, as a referrer of it; where the
// registry has no referrers API, in the list under the tag sha256-<hex> too. Writers of that
// tag at the same moment overwrite each other's, which no registry without the API can keep
// them from. Credentials and hosts are held to the same rules as for reading. Errors are of
// type *Error.
func (c *Client) Attach(ctx context.Context, repository, digest string, bundle []byte, predicateType string, kc authn.Keychain) error {
	if !digests.Valid(digest) {
		return fmt.Errorf("attaching evidence to %s: %q is not a digest", repository, digest)
	}
	repo, all, err := c.target(ctx, repository, kc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limits.RegistryPush)
	defer cancel()
	var first error
	for _, who := range all {
		err := c.attach(ctx, repo, who, digest, bundle, predicateType)
		if !refused(err) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (c *Client) attach(ctx context.Context, repo name.Repository, who access, digest string, bundle []byte, predicateType string) error {
	s := c.session(repo, who)
	// That the image is there, and whether the registry speaks HTTPS or may be spoken to in
	// plain HTTP, is found out as for reading.
	body, err := s.manifest(ctx, opAttach, digest, indexTypes+","+manifestTypes)
	if err == nil && body == nil {
		err = s.failed(opAttach, http.StatusNotFound, nil)
	}
	if err != nil {
		return s.typed(opAttach, err)
	}
	target, err := name.NewDigest(repo.Name() + "@" + digest)
	if err != nil {
		return fmt.Errorf("attaching evidence to %s: %w", repo.Name(), err)
	}
	err = ociremote.WriteAttestationNewBundleFormat(target, bundle, predicateType, ociremote.WithRemoteOptions(
		remote.WithContext(ctx), remote.WithTransport(c.pushing(s, repo, who)), remote.WithAuth(authn.Anonymous)))
	if err == nil {
		return nil
	}
	return s.unwritten(opAttach, err)
}

const opAttach = "attach evidence"

// pushing is the way to write to a repository.
func (c *Client) pushing(s *session, repo name.Repository, who access) http.RoundTripper {
	registry := repo.RegistryStr()
	return &spoken{registry: registry, scheme: s.account.knownScheme(), inner: &login{
		hosts: c.policy, registry: registry, scope: repo.Scope(transport.PushScope), config: who.config,
		account: s.account, inner: c.transport, now: c.now, requests: c.requests, turn: make(chan struct{}, 1),
	}}
}

// spoken sends what is for the registry over the scheme that it was seen to speak. What
// writes guesses one from the name, and tries the other at once.
type spoken struct {
	registry, scheme string
	inner            http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *spoken) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != s.registry || s.scheme == "" || req.URL.Scheme == s.scheme {
		return s.inner.RoundTrip(req)
	}
	sent := req.Clone(req.Context())
	sent.URL.Scheme = s.scheme
	return s.inner.RoundTrip(sent)
}

// unwritten is what went wrong, with the registry's answer where it gave one.
func (s *session) unwritten(op string, err error) error {
	var answer *transport.Error
	if errors.As(err, &answer) && answer.StatusCode != 0 && answer.StatusCode != http.StatusOK {
		return s.failed(op, answer.StatusCode, nil)
	}
	return s.failed(op, 0, err)
}
