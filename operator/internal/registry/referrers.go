package registry

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

const opReferrers = "list referrers"

// noAPI are the answers of registries that do not know the referrers API: by the
// specification 404, in the field also these. They say nothing about the image, so the
// fallback tag has to be read.
var noAPI = []int{http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented}

// referrersAPI lists referrers by the OCI 1.1 API that are or could be bundles, from all pages
// of it. It returns false if the registry does not have the API.
func (s *session) referrersAPI(ctx context.Context, digest string, limit extent) ([]descriptor, bool, error) {
	r := request{
		op: opReferrers, operation: "referrers", method: http.MethodGet, path: "referrers/" + digest, accept: string(types.OCIImageIndex),
		limit: limit.bytes, limitName: limit.name, absent: noAPI,
	}
	var all []descriptor
	bytes, listed := 0, 0
	for range limits.ReferrerPages {
		a, err := s.do(ctx, r)
		if err != nil {
			return nil, false, err
		}
		if !a.found() {
			s.host.referrersAPI(false)
			return nil, false, nil
		}
		s.host.referrersAPI(true)
		page, err := s.listed(a.body)
		if err != nil {
			return nil, false, s.failed(opReferrers, 0, err)
		}
		if listed += page.of; listed > limits.ReferrersPerImage {
			return nil, false, s.tooMany("limits.ReferrersPerImage", limits.ReferrersPerImage, "referrers")
		}
		// All pages together are no more than a registry without pages may send.
		if bytes += len(a.body); int64(bytes) > limit.bytes {
			return nil, false, s.failed(opReferrers, 0, r.tooLarge())
		}
		all = append(all, page.bundles...)
		query, more, err := nextPage(a)
		if err != nil {
			return nil, false, s.failed(opReferrers, 0, err)
		}
		if !more {
			return byDigest(all), true, nil
		}
		// The list has begun: no answer can now mean that there is no such API.
		r.query, r.absent = query, nil
	}
	return nil, false, s.tooMany("limits.ReferrerPages", limits.ReferrerPages, "pages of referrers")
}

// page is what counts of a list of referrers.
type page struct {
	bundles []descriptor
	// of is how many referrers the list has in all.
	of int
}

// listed takes a list of referrers apart, and leaves those that hold, or could hold, a bundle.
func (s *session) listed(body []byte) (page, error) {
	return apart(s, len(body), func() (page, error) {
		all, err := parseIndex(body)
		return page{bundles: only(listedBundles(all), bundleAnnotation), of: len(all)}, err
	})
}

// referrersTag lists the same of what is kept under the tag sha256-<hex>.
func (s *session) referrersTag(ctx context.Context, digest string, limit extent) ([]descriptor, error) {
	a, err := s.do(ctx, request{
		op: opReferrers, operation: "referrers", method: http.MethodGet, path: "manifests/" + fallbackTag(digest), accept: string(types.OCIImageIndex),
		limit: limit.bytes, limitName: limit.name, absent: []int{http.StatusNotFound},
	})
	if err != nil || !a.found() {
		return nil, err
	}
	all, err := s.listed(a.body)
	if err != nil {
		return nil, s.failed(opReferrers, 0, err)
	}
	if all.of > limits.ReferrersPerImage {
		return nil, s.tooMany("limits.ReferrersPerImage", limits.ReferrersPerImage, "referrers")
	}
	return byDigest(all.bundles), nil
}

// nextLink is one of possibly several links, each with possibly several parameters.
var nextLink = regexp.MustCompile(`(?i)<([^>]+)>(?:\s*;\s*[^\s=;,"<>]+(?:\s*=\s*(?:"[^"]*"|[^",;\s]+))?)*?\s*;\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next(?:[\s,;]|$))`)

// nextPage returns the query of the next page. Only the query is taken from the link:
// where the list is was decided by us.
func nextPage(a *answer) (query string, more bool, err error) {
	link := strings.Join(a.header.Values("Link"), ", ")
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
