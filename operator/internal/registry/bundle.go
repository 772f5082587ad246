package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sluice-dev/sluice/operator/internal/bundle"
	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

const (
	opBundle     = "read the policy bundle"
	opPushBundle = "push the policy bundle"
)

// Bundle reads a policy bundle, repository@digest, with all its layers: each is held to its
// digest, and nothing in them is looked at. Whoever calls it has verified the digest before.
// Errors are of type *Error, or *bundle.Error where the manifest is wrong, which it then is
// for good. Nothing of it is kept; callers at the same time share one read.
func (c *Client) Bundle(ctx context.Context, repository, digest string, kc authn.Keychain) (bundle.Content, error) {
	if !digests.Valid(digest) {
		return bundle.Content{}, fmt.Errorf("reading the policy bundle %s: %q is not a digest", repository, digest)
	}
	return inTurn(ctx, c, repository, kc, func(s *session) (bundle.Content, error) {
		content, err := share(ctx, c, s, "policies\x00"+digest, func(ctx context.Context) (bundle.Content, error) {
			return s.bundle(ctx, digest)
		})
		if wrong := new(bundle.Error); errors.As(err, &wrong) {
			return bundle.Content{}, wrong
		}
		return content, s.typed(opBundle, err)
	})
}

func (s *session) bundle(ctx context.Context, digest string) (bundle.Content, error) {
	// An index is asked for as well, to be told from nothing at all.
	manifest, err := s.manifest(ctx, opBundle, digest, manifestTypes+","+indexTypes)
	if err == nil && manifest == nil {
		err = s.failed(opBundle, http.StatusNotFound, nil)
	}
	if err != nil {
		return bundle.Content{}, err
	}
	layers, err := bundle.Layers(manifest)
	if err != nil {
		return bundle.Content{}, err
	}
	out := bundle.Content{Manifest: manifest, Layers: make([][]byte, len(layers))}
	return out, inParallel(len(layers), func(i int) (err error) {
		out.Layers[i], err = s.layer(ctx, layers[i])
		return err
	})
}

// layer reads one layer, of which no more is taken than the manifest says that it has.
func (s *session) layer(ctx context.Context, l bundle.Layer) ([]byte, error) {
	a, err := s.do(ctx, request{
		op: opBundle, operation: "blob", method: http.MethodGet, path: "blobs/" + l.Digest, limit: l.Size, limitName: "the size in its manifest",
	})
	var over *limitError
	switch {
	case err != nil && !(errors.As(err, &over) && over.name == "the size in its manifest"):
		return nil, err
	case err != nil || digests.Of(a.body) != l.Digest || int64(len(a.body)) != l.Size:
		return nil, s.failed(opBundle, 0, &contentError{text: "a layer is not what the manifest describes"})
	}
	return a.body, nil
}

// PushBundle stores a policy bundle in a repository, and under a tag where one is given.
// Credentials and hosts are held to the same rules as for reading. Errors are of type *Error.
func (c *Client) PushBundle(ctx context.Context, repository, tag string, p *bundle.Packed, kc authn.Keychain) error {
	repo, all, err := c.target(ctx, repository, kc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limits.BundlePush)
	defer cancel()
	var first error
	for _, who := range all {
		err := c.pushBundle(ctx, repo, who, tag, p)
		if !refused(err) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (c *Client) pushBundle(ctx context.Context, repo name.Repository, who access, tag string, p *bundle.Packed) error {
	s := c.session(repo, who)
	// Whether the registry speaks HTTPS, or may be spoken to in plain HTTP, is found out as
	// for reading.
	if _, err := s.manifest(ctx, opPushBundle, p.Digest(), manifestTypes); err != nil && !refused(err) {
		return s.typed(opPushBundle, err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(c.pushing(s, repo, who)), remote.WithAuth(authn.Anonymous)}
	err := inParallel(len(p.Blobs), func(i int) error {
		return remote.WriteLayer(repo, static.NewLayer(p.Blobs[i].Content, types.MediaType(p.Blobs[i].MediaType)), options...)
	})
	if err != nil {
		return s.unwritten(opPushBundle, err)
	}
	var ref name.Reference = repo.Digest(p.Digest())
	if tag != "" {
		ref = repo.Tag(tag)
	}
	if err := remote.Put(ref, pushed(p.Manifest), options...); err != nil {
		return s.unwritten(opPushBundle, err)
	}
	return nil
}

// pushed is a manifest as remote.Put takes it.
type pushed []byte

// RawManifest implements remote.Taggable.
func (p pushed) RawManifest() ([]byte, error) { return p, nil }

// MediaType is the header that it is stored with.
func (p pushed) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
