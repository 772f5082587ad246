package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

const (
	predicateAnnotation = "dev.sigstore.bundle.predicateType"
	predicateSign       = "https://sigstore.dev/cosign/sign/v1"
	opReferrers         = "list referrers"
)

// noAPI are the answers of registries that do not know the referrers API: by the
// specification 404, in the field also these. They say nothing about the image, so the
// fallback tag has to be read.
var noAPI = []int{http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented}

// bundleReferrers lists the manifests among the image's referrers that hold, or could
// hold, a signature bundle, ordered by digest.
func (s *session) bundleReferrers(ctx context.Context, digest string) ([]v1.Descriptor, error) {
	all, known, err := s.referrersAPI(ctx, digest)
	if err != nil {
		return nil, err
	}
	if !known {
		if all, err = s.referrersTag(ctx, digest); err != nil {
			return nil, err
		}
	}
	found := slices.DeleteFunc(all, func(d v1.Descriptor) bool { return !mayHoldSignature(d) })
	slices.SortFunc(found, func(a, b v1.Descriptor) int { return strings.Compare(a.Digest.String(), b.Digest.String()) })
	return slices.CompactFunc(found, func(a, b v1.Descriptor) bool { return a.Digest == b.Digest }), nil
}

// mayHoldSignature passes by what says that it is something else. A referrer that lies
// about that hides a signature at worst, which its author could as well not have pushed.
// Lists kept by older clients give the type of the (empty) config where the artifact's
// should be; those manifests have to be looked into.
func mayHoldSignature(d v1.Descriptor) bool {
	if p := d.Annotations[predicateAnnotation]; p != "" && p != predicateSign {
		return false
	}
	if strings.HasPrefix(d.ArtifactType, bundleTypePrefix) {
		return true
	}
	return d.ArtifactType == "" || d.ArtifactType == emptyType
}

// referrersAPI lists referrers by the OCI 1.1 API, all pages of it. It returns false if
// the registry does not have the API.
func (s *session) referrersAPI(ctx context.Context, digest string) ([]v1.Descriptor, bool, error) {
	r := request{
		op: opReferrers, operation: "referrers", method: http.MethodGet, path: "referrers/" + digest, accept: string(types.OCIImageIndex),
		limit: limits.ManifestBytes, limitName: "limits.ManifestBytes", absent: noAPI,
	}
	var all []v1.Descriptor
	for range limits.ReferrerPages {
		a, err := s.do(ctx, r)
		if err != nil {
			return nil, false, err
		}
		if !a.found() {
			return nil, false, nil
		}
		page, err := s.index(a)
		if err != nil {
			return nil, false, err
		}
		if len(all)+len(page) > limits.ReferrersPerImage {
			return nil, false, s.tooMany("limits.ReferrersPerImage", limits.ReferrersPerImage, "referrers")
		}
		all = append(all, page...)
		query, more, err := nextPage(a)
		if err != nil {
			return nil, false, s.failed(opReferrers, 0, err)
		}
		if !more {
			return all, true, nil
		}
		// The list has begun: no answer can now mean that there is no such API.
		r.query, r.absent = query, nil
	}
	return nil, false, s.tooMany("limits.ReferrerPages", limits.ReferrerPages, "pages of referrers")
}

// referrersTag lists referrers as kept under the tag sha256-<hex>.
func (s *session) referrersTag(ctx context.Context, digest string) ([]v1.Descriptor, error) {
	a, err := s.do(ctx, request{
		op: opReferrers, operation: "referrers", method: http.MethodGet, path: "manifests/" + fallbackTag(digest), accept: string(types.OCIImageIndex),
		limit: limits.ManifestBytes, limitName: "limits.ManifestBytes", absent: []int{http.StatusNotFound},
	})
	if err != nil || !a.found() {
		return nil, err
	}
	all, err := s.index(a)
	if err != nil {
		return nil, err
	}
	if len(all) > limits.ReferrersPerImage {
		return nil, s.tooMany("limits.ReferrersPerImage", limits.ReferrersPerImage, "referrers")
	}
	return all, nil
}

// index reads an image index. Anything else is an error: a page that some proxy put in
// the way must not pass for an empty list.
func (s *session) index(a *answer) ([]v1.Descriptor, error) {
	var index v1.IndexManifest
	err := json.Unmarshal(a.body, &index)
	if err != nil || index.SchemaVersion != 2 || (index.MediaType != "" && !index.MediaType.IsIndex()) {
		return nil, s.failed(opReferrers, 0, &contentError{text: "the answer is not an image index"})
	}
	return index.Manifests, nil
}

var nextLink = regexp.MustCompile(`<([^>]+)>\s*;\s*rel="?next"?`)

// nextPage returns the query of the next page. Only the query is taken from the link:
// where the list is was decided by us.
func nextPage(a *answer) (query string, more bool, err error) {
	link := a.header.Get("Link")
	if link == "" {
		return "", false, nil
	}
	m := nextLink.FindStringSubmatch(link)
	if m == nil {
		return "", false, nil
	}
	u, err := url.Parse(m[1])
	if err != nil || u.RawQuery == "" {
		return "", false, &contentError{text: fmt.Sprintf("the link to the next page, %.100q, cannot be followed", m[1])}
	}
	return u.RawQuery, true, nil
}
