package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// shop is a registry with one image and a key.
type shop struct {
	*testkit.Registry
	repository, digest string
	key                *testkit.Key
}

var theKey = sync.OnceValues(testkit.NewKey)

func newShop(t testing.TB, options testkit.RegistryOptions) *shop {
	t.Helper()
	r := testkit.NewRegistry(options)
	t.Cleanup(r.Close)
	s := &shop{Registry: r, repository: r.Host() + "/shop/web"}
	var err error
	if s.digest, err = testkit.PushImage(s.repository+":1", "web"); err != nil {
		t.Fatal(err)
	}
	if s.key, err = theKey(); err != nil {
		t.Fatal(err)
	}
	return s
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *shop) ref(t testing.TB, suffix string) images.Reference {
	t.Helper()
	ref, err := images.Parse(s.repository + suffix)
	ok(t, err)
	return ref
}

// look reads all signatures of the image.
func (s *shop) look(ctx context.Context, c *Client, kc authn.Keychain) ([]gate.Signature, error) {
	found, err := c.Evidence(ctx, s.repository, s.digest, gate.Want{Signatures: true}, nil, kc)
	return found.Signatures, err
}

// reasons why some of what was found was not read.
func reasons(found ...[]gate.Signature) string {
	var all []string
	for _, s := range slices.Concat(found...) {
		if s.Unread != nil {
			all = append(all, s.Unread.Reason)
		}
	}
	return strings.Join(all, "; ")
}

func TestClient_ResolvesAPinnedReferenceWithoutARequest(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	s.ResetCounts()
	digest, err := New(Options{}).Resolve(t.Context(), s.ref(t, ":other@"+s.digest), nil)
	if err != nil || digest != s.digest || s.Requests() != 0 {
		t.Errorf("got %s, %v after %d requests", digest, err, s.Requests())
	}
}

func tooManyRequests(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "3600")
	w.WriteHeader(http.StatusTooManyRequests)
}

func TestClient_ReadsTheManifestWhereHEADDoesNotTell(t *testing.T) {
	isHead := func(r *http.Request) bool { return r.Method == http.MethodHead }
	for title, answer := range map[string]http.Handler{
		"HEAD is not allowed":     testkit.Status(http.StatusMethodNotAllowed),
		"HEAD gives no digest":    testkit.Status(http.StatusOK),
		"HEAD gives a bad digest": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Docker-Content-Digest", "md5:1") }),
	} {
		t.Run(title, func(t *testing.T) {
			s := newShop(t, testkit.RegistryOptions{})
			s.Override(isHead, answer)
			digest, err := New(Options{}).Resolve(t.Context(), s.ref(t, ":1"), nil)
			if err != nil || digest != s.digest {
				t.Errorf("got %s, %v", digest, err)
			}
		})
	}
}

func TestClient_SaysThatATagIsNotThere(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	_, err := New(Options{}).Resolve(t.Context(), s.ref(t, ":2"), nil)
	var known *Error
	if !errors.As(err, &known) || !known.notFound() {
		t.Fatalf("got %v", err)
	}
	want := s.repository + ": cannot look up tag 2: the registry answered 404 Not Found: check the name, and push the image first"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func truncated(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", string(types.OCIImageIndex))
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte(`{"schemaVersion":2,"manifests":[`))
}

func body(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

// Whatever goes wrong in either place, the answer must not be "no signatures".
func TestClient_NeverTakesAFailureForAbsence(t *testing.T) {
	places := map[string]string{
		"the .sig tag": ".sig", "its payload or a bundle": "/blobs/", "the referrers": "/referrers/", "the referrer's manifest": "/manifests/sha256:",
	}
	failures := map[string]struct {
		answer http.Handler
		status int
	}{
		"401":                  {testkit.Status(401), 401},
		"403":                  {testkit.Status(403), 403},
		"429":                  {testkit.Status(429), 429},
		"500":                  {testkit.Status(500), 500},
		"503":                  {testkit.Status(503), 503},
		"a teapot":             {testkit.Status(418), 418},
		"no answer":            {testkit.Hang(), 0},
		"a body cut off":       {http.HandlerFunc(truncated), 0},
		"a web page":           {body("<html>Sign in</html>"), 0},
		"an empty body":        {body(""), 0},
		"an empty JSON object": {body("{}"), 0},
		"a redirect to nowhere": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://[::1]:1/x")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}), 0},
	}
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, s.key.SignTag(s.repository, s.digest))
	ok(t, s.key.SignBundle(s.repository, s.digest))
	for where, part := range places {
		for what, failure := range failures {
			t.Run(what+" from "+where, func(t *testing.T) {
				s.Restore()
				s.Override(testkit.PathContains(part), failure.answer)
				c := New(Options{})
				if what == "no answer" {
					c.deadline = time.Second
				}
				found, err := s.look(t.Context(), c, nil)
				var known *Error
				if found != nil || !errors.As(err, &known) || known.Status != failure.status {
					t.Fatalf("got %d signatures, %v", len(found), err)
				}
				s.Restore()
				if found, err := s.look(t.Context(), c, nil); err != nil || len(found) != 2 {
					t.Errorf("the failure was kept: %d signatures, %v", len(found), err)
				}
			})
		}
	}
}

func TestClient_FailsWhereTheFallbackTagFails(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	isFallback := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, testkit.FallbackTag(s.digest)) }
	for title, answer := range map[string]http.Handler{"500": testkit.Status(500), "a web page": body("<html>"), "an image": body(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`)} {
		s.Restore()
		s.Override(isFallback, answer)
		if found, err := s.look(t.Context(), New(Options{}), nil); err == nil {
			t.Errorf("%s: %d signatures and no error", title, len(found))
		}
	}
}

func TestClient_DoesNotWaitForADeadRegistry(t *testing.T) {
	r := testkit.NewRegistry(testkit.RegistryOptions{})
	host := r.Host()
	r.Close()
	ref, err := images.Parse(host + "/shop/web:1")
	ok(t, err)
	_, err = New(Options{}).Resolve(t.Context(), ref, nil)
	want := host + "/shop/web: cannot look up tag 1: the connection failed: connection refused: check that the registry is up and reachable, and try again"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func putIndex(t testing.TB, ref string, entries []v1.Descriptor) {
	t.Helper()
	target, err := name.ParseReference(ref)
	ok(t, err)
	ok(t, remote.Put(target, rawIndex{v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: entries}}))
}

type rawIndex struct{ v1.IndexManifest }

func (r rawIndex) RawManifest() ([]byte, error)        { return json.Marshal(r.IndexManifest) }
func (r rawIndex) MediaType() (types.MediaType, error) { return types.OCIImageIndex, nil }

func junk(n int, artifactType string) []v1.Descriptor {
	out := make([]v1.Descriptor, n)
	for i := range out {
		hash, _ := v1.NewHash(testkit.DigestOf(fmt.Sprint("junk", i)))
		out[i] = v1.Descriptor{MediaType: "application/x-junk", Digest: hash, Size: 10, ArtifactType: artifactType}
	}
	return out
}

func TestClient_StaysWithinItsLimits(t *testing.T) {
	sign := func(s *shop) { ok(t, s.key.SignBundle(s.repository, s.digest)) }
	addJunk := func(n int, artifactType string) func(*shop) {
		return func(s *shop) {
			tag := s.repository + ":" + testkit.FallbackTag(s.digest)
			target, err := name.ParseReference(tag)
			ok(t, err)
			index, err := remote.Index(target)
			ok(t, err)
			manifest, err := index.IndexManifest()
			ok(t, err)
			putIndex(t, tag, append(junk(n, artifactType), manifest.Manifests...))
		}
	}
	for title, tc := range map[string]struct {
		prepare []func(*shop)
		// wantLimit is in the error; unread, in the reason why a piece is not read.
		wantLimit, unread string
		found             int
		requests          int
	}{
		"10,000 referrers of another type":            {[]func(*shop){sign, addJunk(10000, "application/x-sbom")}, "limits.ReferrersPerImage", "", 0, 3},
		"4,000 referrers of another type before ours": {[]func(*shop){sign, addJunk(4000, "application/x-sbom")}, "", "", 1, 6},
		"65 things that say they are bundles":         {[]func(*shop){sign, addJunk(limits.SignaturesPerImage, "application/vnd.dev.sigstore.bundle.v0.3+json")}, "limits.SignaturesPerImage", "", 0, 2},
		"65 things that might be bundles":             {[]func(*shop){sign, addJunk(limits.SignaturesPerImage, emptyType)}, "limits.SignaturesPerImage", "", 0, 2},
		"an index larger than a manifest may be":      {[]func(*shop){sign, addJunk(4000, strings.Repeat("x", 1200))}, "limits.ManifestBytes", "", 0, 3},
		"65 signatures under the tag":                 {[]func(*shop){func(s *shop) { s.pushLayers(t, limits.SignaturesPerImage+1, 10) }}, "limits.SignaturesPerImage", "", 0, 3},
		"a payload too large to be one":               {[]func(*shop){func(s *shop) { s.pushLayers(t, 1, limits.SignatureBlobBytes+1) }}, "", "limits.SignatureBlobBytes", 1, 3},
		"a bundle too large to be one": {[]func(*shop){func(s *shop) {
			ok(t, testkit.StoreBundle(s.repository, s.digest, make([]byte, limits.SignatureBlobBytes+1), testkit.PredicateSign))
		}}, "", "limits.SignatureBlobBytes", 1, 4},
	} {
		t.Run(title, func(t *testing.T) {
			s := newShop(t, testkit.RegistryOptions{})
			for _, prepare := range tc.prepare {
				prepare(s)
			}
			s.ResetCounts()
			found, err := s.look(t.Context(), New(Options{}), nil)
			if tc.wantLimit == "" && (err != nil || len(found) != tc.found) {
				t.Errorf("got %d, %v", len(found), err)
			}
			if tc.wantLimit != "" && (err == nil || !strings.Contains(err.Error(), "("+tc.wantLimit+")")) {
				t.Errorf("got %v, want the name %s", err, tc.wantLimit)
			}
			if unread := reasons(found); (unread == "") != (tc.unread == "") || !strings.Contains(unread, tc.unread) {
				t.Errorf("not read: %q, want the name %s", unread, tc.unread)
			}
			if s.Requests() != tc.requests {
				t.Errorf("%d requests, want %d: %v", s.Requests(), tc.requests, s.Counts())
			}
		})
	}
}

// pushLayers writes n signature layers of a size under the .sig tag.
func (s *shop) pushLayers(t testing.TB, n, size int) {
	t.Helper()
	img := mutate.MediaType(v1.Image(empty.Image), types.OCIManifestSchema1)
	for i := range n {
		content := slices.Concat([]byte(fmt.Sprint(i, " ")), make([]byte, size))
		var err error
		img, err = mutate.Append(img, mutate.Addendum{
			Layer:       static.NewLayer(content, "application/vnd.dev.cosign.simplesigning.v1+json"),
			Annotations: map[string]string{signatureAnnotation: "c2ln"},
		})
		ok(t, err)
	}
	_, err := testkit.Push(s.repository+":"+testkit.SignatureTag(s.digest), img)
	ok(t, err)
}

// The manifest gives a small size and the registry sends without end.
func TestClient_BelievesNoSizeThatItIsTold(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, s.key.SignTag(s.repository, s.digest))
	var sent int
	s.Override(testkit.PathContains("/blobs/"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range 64 {
			n, err := w.Write(chunk)
			sent += n
			if err != nil {
				return
			}
		}
	}))
	found, err := s.look(t.Context(), New(Options{}), nil)
	if err != nil || !strings.Contains(reasons(found), "limits.SignatureBlobBytes") {
		t.Errorf("got %q, %v", reasons(found), err)
	}
	s.Server.CloseClientConnections()
	s.Close()
	if sent > 32<<20 {
		t.Errorf("%d bytes were taken", sent)
	}
}

func TestClient_HoldsContentToItsDigest(t *testing.T) {
	for title, part := range map[string]string{"a payload": "/blobs/", "a manifest": "/manifests/sha256:"} {
		t.Run(title, func(t *testing.T) {
			s := newShop(t, testkit.RegistryOptions{Referrers: true})
			ok(t, s.key.SignBundle(s.repository, s.digest))
			s.Override(testkit.PathContains(part), body(`{"schemaVersion":2,"layers":[]}`))
			_, err := s.look(t.Context(), New(Options{}), nil)
			var broken *contentError
			if !errors.As(err, &broken) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestClient_HoldsContentOfTheRightSizeToItsDigest(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, s.key.SignTag(s.repository, s.digest))
	payload, _, err := s.key.SimpleSigning(s.repository, testkit.DigestOf("another image"))
	ok(t, err)
	s.Override(testkit.PathContains("/blobs/"), body(string(payload)))
	_, err = s.look(t.Context(), New(Options{}), nil)
	var broken *contentError
	if !errors.As(err, &broken) {
		t.Errorf("got %v", err)
	}
}

// A link that is passed by would make the first page look like all there is.
func TestNextPage_FindsTheLinkAmongOthers(t *testing.T) {
	for title, c := range map[string]struct {
		links []string
		query string
	}{
		"as it should be":               {[]string{`</v2/x?n=1>; rel="next"`}, "n=1"},
		"without quotes or space":       {[]string{`</v2/x?n=1>;rel=next`}, "n=1"},
		"after another parameter":       {[]string{`</v2/x?n=1>; title="a, b"; rel="next"`}, "n=1"},
		"after another link":            {[]string{`</v2/x?n=0>; rel="prev", </v2/x?n=1>; rel="next"`}, "n=1"},
		"in a header of its own":        {[]string{`</v2/x?n=0>; rel="prev"`, `</v2/x?n=1>; REL="next"`}, "n=1"},
		"before another link":           {[]string{`</v2/x?n=1>; rel=next, </v2/x?n=9>; rel=last`}, "n=1"},
		"of two relations":              {[]string{`</v2/x?n=1>; rel="last next"`}, "n=1"},
		"of two relations, first":       {[]string{`</v2/x?n=1>; rel="next last"`}, "n=1"},
		"after a parameter of no value": {[]string{`</v2/x?n=1>; x-page1; rel="next"`}, "n=1"},
		"one to what only begins so":    {[]string{`</v2/x?n=0>; rel="next-archive"`}, ""},
		"no link at all":                {nil, ""},
		"no link to the next":           {[]string{`</v2/x?n=0>; rel="prev"; title="next"`}, ""},
		"one to what is no next page":   {[]string{`</v2/x?n=0>; rel=nextto`}, ""},
	} {
		query, more, err := nextPage(&answer{header: http.Header{"Link": c.links}})
		if err != nil || query != c.query || more != (c.query != "") {
			t.Errorf("%s: %q, %t, %v", title, query, more, err)
		}
	}
}

func TestClient_FollowsThePagesOfReferrers(t *testing.T) {
	page := func(w http.ResponseWriter, link string, entries []v1.Descriptor) {
		if link != "" {
			w.Header().Set("Link", "<"+link+`>; rel="next"`)
		}
		_ = json.NewEncoder(w).Encode(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: entries})
	}
	t.Run("to the last", func(t *testing.T) {
		s := newShop(t, testkit.RegistryOptions{Referrers: true})
		s.Override(testkit.PathContains("/referrers/"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("n") == "2" {
				page(w, "", nil)
				return
			}
			page(w, "http://evil.example.com/v2/x/referrers/y?n=2", junk(1, "x"))
		}))
		s.ResetCounts()
		if _, err := s.look(t.Context(), New(Options{}), nil); err != nil || s.Counts()["GET referrers"] != 2 {
			t.Errorf("got %v after %v", err, s.Counts())
		}
	})
	t.Run("but not for more bytes than one page may have", func(t *testing.T) {
		s := newShop(t, testkit.RegistryOptions{Referrers: true})
		s.Override(testkit.PathContains("/referrers/"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			page(w, "?n=1", junk(1, strings.Repeat("x", limits.ManifestBytes/3)))
		}))
		s.ResetCounts()
		_, err := s.look(t.Context(), New(Options{}), nil)
		if err == nil || !strings.Contains(err.Error(), "larger than 4194304 bytes (limits.ManifestBytes)") || s.Counts()["GET referrers"] != 1+3 {
			t.Errorf("got %v after %v", err, s.Counts())
		}
	})
	t.Run("but not round and round", func(t *testing.T) {
		s := newShop(t, testkit.RegistryOptions{Referrers: true})
		s.Override(testkit.PathContains("/referrers/"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { page(w, "?n=1", nil) }))
		s.ResetCounts()
		_, err := s.look(t.Context(), New(Options{}), nil)
		if err == nil || !strings.Contains(err.Error(), "limits.ReferrerPages") || s.Counts()["GET referrers"] != limits.ReferrerPages {
			t.Errorf("got %v after %v", err, s.Counts())
		}
	})
	t.Run("and a page that is gone is no end", func(t *testing.T) {
		s := newShop(t, testkit.RegistryOptions{Referrers: true})
		s.Override(testkit.PathContains("/referrers/"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery != "" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			page(w, "?n=1", nil)
		}))
		if _, err := s.look(t.Context(), New(Options{}), nil); err == nil {
			t.Error("no error")
		}
	})
}

func TestClient_CountsRequestsByOperationAndCode(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	ok(t, s.key.SignTag(s.repository, s.digest))
	c := New(Options{})
	_, err := s.look(t.Context(), c, nil)
	ok(t, err)
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(c.Collectors()...)
	families, err := metrics.Gather()
	ok(t, err)
	got := map[string]float64{}
	requests := families[1]
	for _, m := range requests.GetMetric() {
		got[m.GetLabel()[1].GetValue()+" "+m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	want := map[string]float64{"blob 200": 1, "manifest 200": 1, "referrers 404": 2}
	if diff := cmp.Diff(want, got); diff != "" || requests.GetName() != "sluice_registry_requests_total" {
		t.Error(requests.GetName(), diff)
	}
}

func TestClient_ReportsTheCallersEndOfTime(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.look(ctx, New(Options{}), nil)
	var known *Error
	if !errors.As(err, &known) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
