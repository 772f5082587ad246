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

	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Attach stores a sigstore bundle beside repository@digest, as a referrer of it; where the
// registry has no referrers API, in the list under the tag sha256-<hex> too. Writers of that
// tag at the same moment overwrite each other's, which no registry without the API can keep
// them from. Credentials and hosts are held to the same rules as for reading. Errors are of
// type *Error.
func (c *Client) Attach(ctx context.Context, repository, digest string, bundle []byte, predicateType string, kc authn.Keychain) error {
	if !images.ValidDigest(digest) {
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
	registry := repo.RegistryStr()
	s := c.session(repo, who)
	var names []name.Option
	if s.plain {
		names = append(names, name.Insecure)
	}
	target, err := name.NewDigest(repo.Name()+"@"+digest, names...)
	if err != nil {
		return fmt.Errorf("attaching evidence to %s: %w", repo.Name(), err)
	}
	pushing := &login{
		hosts: c.policy, registry: registry, scope: repo.Scope(transport.PushScope), config: who.config,
		account: s.account, inner: c.transport, now: c.now, requests: c.requests, turn: make(chan struct{}, 1),
	}
	err = ociremote.WriteAttestationNewBundleFormat(target, bundle, predicateType, ociremote.WithNameOptions(names...), ociremote.WithRemoteOptions(
		remote.WithContext(ctx), remote.WithTransport(pushing), remote.WithAuth(authn.Anonymous)))
	if err == nil {
		return nil
	}
	return s.unattached(err)
}

// unattached is what went wrong, with the registry's answer where it gave one.
func (s *session) unattached(err error) error {
	const op = "attach evidence"
	var answer *transport.Error
	if errors.As(err, &answer) && answer.StatusCode != 0 && answer.StatusCode != http.StatusOK {
		return s.failed(op, answer.StatusCode, nil)
	}
	return s.failed(op, 0, err)
}
