package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"golang.org/x/sync/errgroup"
)

const (
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	bundleTypePrefix    = "application/vnd.dev.sigstore.bundle"
	emptyType           = "application/vnd.oci.empty.v1+json"
	manifestTypes       = string(types.OCIManifestSchema1) + "," + string(types.DockerManifestSchema2)
	indexTypes          = string(types.OCIImageIndex) + "," + string(types.DockerManifestList)
)

// resolve asks for the digest of a tag. HEAD is enough where a registry does it right;
// where it does not, the manifest is read and hashed.
func (s *session) resolve(ctx context.Context, tag string) (string, error) {
	r := request{
		op: "look up tag " + tag, operation: "resolve", method: http.MethodHead, path: "manifests/" + tag,
		accept: indexTypes + "," + manifestTypes, limit: limits.ManifestBytes, limitName: "limits.ManifestBytes",
		absent: []int{http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented},
	}
	a, err := s.do(ctx, r)
	if err != nil {
		return "", err
	}
	if digest := a.header.Get("Docker-Content-Digest"); a.found() && images.ValidDigest(digest) {
		return digest, nil
	}
	r.method, r.absent = http.MethodGet, nil
	a, err = s.do(ctx, r)
	if err != nil {
		return "", err
	}
	if !json.Valid(a.body) {
		return "", s.failed(r.op, 0, &contentError{text: "the manifest is not JSON"})
	}
	return sum(a.body), nil
}

// signatures lists both places at once, checks counts, and only then reads what they
// name.
func (s *session) signatures(ctx context.Context, digest string) ([]gate.Signature, error) {
	var layers, referrers []v1.Descriptor
	var layersErr, referrersErr error
	var both errgroup.Group
	both.Go(func() error { layers, layersErr = s.tagLayers(ctx, digest); return nil })
	both.Go(func() error { referrers, referrersErr = s.bundleReferrers(ctx, digest); return nil })
	_ = both.Wait()
	if layersErr != nil {
		return nil, layersErr
	}
	if referrersErr != nil {
		return nil, referrersErr
	}
	if n := len(layers) + len(referrers); n > limits.SignaturesPerImage {
		return nil, s.tooMany("limits.SignaturesPerImage", limits.SignaturesPerImage, "signatures")
	}
	return s.read(ctx, layers, referrers)
}

func (s *session) tooMany(name string, limit int, what string) error {
	return s.failed("read signatures", 0, &limitError{name: name, text: fmt.Sprintf("there are more than %d %s", limit, what)})
}

// read fetches what was listed. Results and errors come in the order of the lists and
// not in that of arrival.
func (s *session) read(ctx context.Context, layers, referrers []v1.Descriptor) ([]gate.Signature, error) {
	results := make([][]gate.Signature, len(layers)+len(referrers))
	errs := make([]error, len(results))
	var all errgroup.Group
	all.SetLimit(limits.RegistryParallel)
	for i := range results {
		all.Go(func() error {
			if i < len(layers) {
				results[i], errs[i] = s.tagSignature(ctx, layers[i])
			} else {
				results[i], errs[i] = s.bundles(ctx, referrers[i-len(layers)])
			}
			return nil
		})
	}
	_ = all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	found := slices.Concat(results...)
	if len(found) > limits.SignaturesPerImage {
		return nil, s.tooMany("limits.SignaturesPerImage", limits.SignaturesPerImage, "signatures")
	}
	return found, nil
}

// tagLayers lists the signatures under the tag sha256-<hex>.sig.
func (s *session) tagLayers(ctx context.Context, digest string) ([]v1.Descriptor, error) {
	const op = "read the signature manifest"
	manifest, err := s.manifest(ctx, op, fallbackTag(digest)+".sig")
	if err != nil || manifest == nil {
		return nil, err
	}
	return slices.DeleteFunc(manifest.Layers, func(d v1.Descriptor) bool {
		return d.Annotations[signatureAnnotation] == ""
	}), nil
}

func (s *session) tagSignature(ctx context.Context, layer v1.Descriptor) ([]gate.Signature, error) {
	payload, err := s.blob(ctx, "read a signature's payload", layer)
	if err != nil {
		return nil, err
	}
	return []gate.Signature{{Format: gate.FormatCosignTag, Payload: payload, Base64: layer.Annotations[signatureAnnotation]}}, nil
}

// bundles reads the bundle that a referrer's manifest holds, none if it turns out to be
// something else.
func (s *session) bundles(ctx context.Context, referrer v1.Descriptor) ([]gate.Signature, error) {
	const op = "read a signature bundle"
	if !images.ValidDigest(referrer.Digest.String()) {
		return nil, s.failed(op, 0, &contentError{text: "its digest is not a SHA-256"})
	}
	manifest, err := s.manifest(ctx, op, referrer.Digest.String())
	if err != nil {
		return nil, err
	}
	if manifest == nil {
		return nil, s.failed(op, 0, &contentError{text: "the list of referrers names a manifest that is not there"})
	}
	var found []gate.Signature
	for _, layer := range manifest.Layers {
		if !strings.HasPrefix(string(layer.MediaType), bundleTypePrefix) {
			continue
		}
		if len(found) == limits.SignaturesPerImage {
			return nil, s.tooMany("limits.SignaturesPerImage", limits.SignaturesPerImage, "signatures")
		}
		bundle, err := s.blob(ctx, op, layer)
		if err != nil {
			return nil, err
		}
		found = append(found, gate.Signature{Format: gate.FormatBundle, Bundle: bundle})
	}
	return found, nil
}

// manifest reads an image manifest by tag or digest; nil if there is none.
func (s *session) manifest(ctx context.Context, op, reference string) (*v1.Manifest, error) {
	a, err := s.do(ctx, request{
		op: op, operation: "manifest", method: http.MethodGet, path: "manifests/" + reference, accept: manifestTypes,
		limit: limits.ManifestBytes, limitName: "limits.ManifestBytes", absent: []int{http.StatusNotFound},
	})
	if err != nil || !a.found() {
		return nil, err
	}
	if images.ValidDigest(reference) && sum(a.body) != reference {
		return nil, s.failed(op, 0, &contentError{text: "the manifest does not have the digest that was asked for"})
	}
	var manifest v1.Manifest
	if err := json.Unmarshal(a.body, &manifest); err != nil || manifest.SchemaVersion != 2 || manifest.MediaType.IsIndex() {
		return nil, s.failed(op, 0, &contentError{text: "the answer is not an image manifest"})
	}
	return &manifest, nil
}

// blob reads a blob that a manifest describes and holds it to that description.
func (s *session) blob(ctx context.Context, op string, d v1.Descriptor) ([]byte, error) {
	if d.Size > limits.SignatureBlobBytes {
		return nil, s.failed(op, 0, &limitError{
			name: "limits.SignatureBlobBytes", text: fmt.Sprintf("it is larger than %d bytes", limits.SignatureBlobBytes)})
	}
	if !images.ValidDigest(d.Digest.String()) {
		return nil, s.failed(op, 0, &contentError{text: "its digest is not a SHA-256"})
	}
	a, err := s.do(ctx, request{
		op: op, operation: "blob", method: http.MethodGet, path: "blobs/" + d.Digest.String(),
		limit: limits.SignatureBlobBytes, limitName: "limits.SignatureBlobBytes",
	})
	if err != nil {
		return nil, err
	}
	if int64(len(a.body)) != d.Size || sum(a.body) != d.Digest.String() {
		return nil, s.failed(op, 0, &contentError{text: "the content is not what its manifest describes"})
	}
	return a.body, nil
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(h[:])
}

func fallbackTag(digest string) string { return strings.Replace(digest, ":", "-", 1) }
