package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

const (
	manifestTypes = string(types.OCIManifestSchema1) + "," + string(types.DockerManifestSchema2)
	indexTypes    = string(types.OCIImageIndex) + "," + string(types.DockerManifestList)

	opResolve    = "resolve"
	digestHeader = "Docker-Content-Digest"
)

// resolve asks for the digest of a tag. HEAD is enough where a registry does it right;
// where it does not, the manifest is read and hashed.
func (s *session) resolve(ctx context.Context, tag string, aside bool) (string, error) {
	r := request{
		op: "look up tag " + tag, operation: opResolve, method: http.MethodHead, path: "manifests/" + tag, aside: aside,
		accept: indexTypes + "," + manifestTypes, limit: limits.ManifestBytes, limitName: "limits.ManifestBytes",
		absent: []int{http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented},
	}
	a, err := s.do(ctx, r)
	if err != nil {
		return "", err
	}
	if digest := a.header.Get(digestHeader); a.found() && digests.Valid(digest) {
		return digest, nil
	}
	r.method, r.absent = http.MethodGet, nil
	return wide(ctx, s, func(limit extent) (string, error) {
		r.limit, r.limitName = limit.bytes, limit.name
		a, err := s.do(ctx, r)
		if err != nil {
			return "", err
		}
		if !json.Valid(a.body) {
			return "", s.failed(r.op, 0, &contentError{text: "the manifest is not JSON"})
		}
		return digests.Of(a.body), nil
	})
}

// manifest reads a manifest or an index by tag or digest; nil if there is none.
func (s *session) manifest(ctx context.Context, op, reference, accept string) ([]byte, error) {
	return s.manifestWithin(ctx, op, reference, accept, most)
}

// manifestWithin reads one of so many bytes at most.
func (s *session) manifestWithin(ctx context.Context, op, reference, accept string, limit extent) ([]byte, error) {
	a, err := s.do(ctx, request{
		op: op, operation: "manifest", method: http.MethodGet, path: "manifests/" + reference, accept: accept,
		limit: limit.bytes, limitName: limit.name, absent: []int{http.StatusNotFound},
	})
	if err != nil || !a.found() {
		return nil, err
	}
	if digests.Valid(reference) && digests.Of(a.body) != reference {
		return nil, s.failed(op, 0, &contentError{text: "the manifest does not have the digest that was asked for"})
	}
	return a.body, nil
}

// blob reads a blob that a manifest describes and holds it to that description. Its size
// was compared with what may be read before. Of a small one more is taken than the
// manifest says, to tell what its author wrote wrong from what a registry sends wrong.
func (s *session) blob(ctx context.Context, op string, d descriptor) ([]byte, error) {
	limit, name := max(d.Size, limits.SignatureBlobBytes), "limits.SignatureBlobBytes"
	if limit > limits.SignatureBlobBytes {
		name = "limits.AttestationBytes"
	}
	a, err := s.do(ctx, request{
		op: op, operation: "blob", method: http.MethodGet, path: "blobs/" + d.Digest, limit: limit, limitName: name, described: true, length: d.Size,
	})
	var over *limitError
	var digest string
	var length int64
	if a != nil {
		digest, length = a.whole()
	}
	switch {
	case errors.As(err, &over) && over.name == name:
		return nil, madeSo{err}
	case err != nil:
		return nil, err
	case digest != d.Digest:
		return nil, s.failed(op, 0, &contentError{text: "the content is not what its manifest describes"})
	case length != d.Size:
		return nil, madeSo{&contentError{text: "it is not as long as its manifest says"}}
	}
	return a.body, nil
}

func (s *session) tooMany(name string, limit int, what string) error {
	return s.failed(opEvidence, 0, &limitError{name: name, text: fmt.Sprintf("there are more than %d %s", limit, what)})
}

// fallbackTag is the tag that stands for a digest.
func fallbackTag(digest string) string { return strings.Replace(digest, ":", "-", 1) }

// decodeBase64 takes both alphabets, padded or not, as protobuf's JSON does.
func decodeBase64(s string) ([]byte, error) {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	return base64.RawStdEncoding.DecodeString(s)
}
