package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/prometheus/client_golang/prometheus"
	ociremote "github.com/sigstore/cosign/v2/pkg/oci/remote"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func TestMemory_CountsTheKeyAndKnowsTheAge(t *testing.T) {
	now := time.Now()
	m := newMemory(8000, 1000, func() time.Time { return now })
	m.put("key", "value", 500)
	if n, want := m.kept.Bytes(), 500+len("key")+entryOverhead; n != want {
		t.Errorf("%d bytes, and not %d", n, want)
	}
	for age, want := range map[time.Duration]bool{time.Minute: false, time.Minute + 1: true} {
		now = now.Add(time.Minute)
		if value, ok := m.get("key", age); ok != want || ok && value != "value" {
			t.Errorf("after a minute, for %s: %v, %t", age, value, ok)
		}
		now = now.Add(-time.Minute)
	}
	m.put("key", "larger", 1000-entryOverhead)
	if value, ok := m.get("key", time.Hour); ok {
		t.Errorf("%v is there, although it is too large", value)
	}
}

// counted returns the lookups by result.
func counted(t *testing.T, c *Client) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c.Collectors()...)
	families, err := r.Gather()
	ok(t, err)
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "sluice_registry_cache_total" {
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return got
}

// A look is given as what it found and how many requests that took.
type seen struct {
	signatures, attestations, requests int
}

func (s *shop) sees(t *testing.T, c *Client, want gate.Want, enough func(Evidence) bool) seen {
	t.Helper()
	s.ResetCounts()
	found, err := c.Evidence(t.Context(), s.repository, s.digest, want, enough, nil)
	ok(t, err)
	return seen{len(found.Signatures), len(found.Attestations), s.Requests()}
}

func TestClient_RefreshesWithOneRequest(t *testing.T) {
	want := gate.Want{Signatures: true}
	for title, tc := range map[string]struct {
		options testkit.RegistryOptions
		sign    step
		refresh int
	}{
		"a bundle":                        {testkit.RegistryOptions{Referrers: true}, signBundle, 1},
		"a bundle under the fallback tag": {testkit.RegistryOptions{}, signBundle, 1},
		"a .sig tag":                      {testkit.RegistryOptions{Referrers: true}, signTag, 2},
	} {
		t.Run(title, func(t *testing.T) {
			s := newShop(t, tc.options)
			ok(t, tc.sign(s))
			clock := newFakeClock()
			c := clock.client(Options{})
			s.sees(t, c, want, some(want))
			clock.advance(limits.CacheTTL - time.Millisecond)
			if got := s.sees(t, c, want, some(want)); got != (seen{1, 0, 0}) {
				t.Errorf("kept: %+v", got)
			}
			clock.advance(time.Millisecond)
			if got := s.sees(t, c, want, some(want)); got != (seen{1, 0, tc.refresh}) {
				t.Errorf("refreshed: %+v", got)
			}
		})
	}
}

// Signing anew and trying again works at once, although there is a signature already.
func TestClient_LooksAgainWhereWhatIsKeptIsNotEnough(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, signBundle(s))
	clock := newFakeClock()
	c := clock.client(Options{})
	want := gate.Want{Signatures: true}
	two := func(e Evidence) bool { return len(e.Signatures) == 2 }
	var got []seen
	got = append(got, s.sees(t, c, want, two), s.sees(t, c, want, two))
	second, err := testkit.NewKey()
	ok(t, err)
	ok(t, second.SignBundle(s.repository, s.digest))
	clock.advance(limits.CacheNegativeTTL)
	got = append(got, s.sees(t, c, want, two), s.sees(t, c, want, two))
	if diff := cmp.Diff([]seen{{1, 0, 4}, {1, 0, 0}, {2, 0, 3}, {2, 0, 0}}, got, cmp.AllowUnexported(seen{})); diff != "" {
		t.Error(diff)
	}
}

// Two gates that want different things of one image share what they read.
func TestClient_ReadsOnlyWhatIsMissing(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, signBundle(s))
	ok(t, attestBundle(s))
	ok(t, vulnerabilities(s))
	c := newFakeClock().client(Options{})
	signed := gate.Want{Signatures: true}
	both := gate.Want{Signatures: true, Predicates: []string{provenance}}
	got := []seen{
		s.sees(t, c, signed, some(signed)), // list, manifest, blob
		s.sees(t, c, both, some(both)),     // manifest, blob
		s.sees(t, c, both, some(both)),
		s.sees(t, c, signed, some(signed)),
	}
	if diff := cmp.Diff([]seen{{1, 0, 3}, {1, 1, 2}, {1, 1, 0}, {1, 0, 0}}, got, cmp.AllowUnexported(seen{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]float64{"hit": 2, "miss": 2}, counted(t, c)); diff != "" {
		t.Error(diff)
	}
}

// What a look finds depends on the registry and on what is enough, and not on what somebody
// else had read.
func TestClient_FindsTheSameWhoeverAskedBefore(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, signBundle(s))
	ok(t, signTag(s))
	c := newFakeClock().client(Options{})
	want := gate.Want{Signatures: true}
	got := []seen{s.sees(t, c, want, some(want)), s.sees(t, c, want, nil), s.sees(t, c, want, some(want)), s.sees(t, c, want, nil)}
	if diff := cmp.Diff([]seen{{1, 0, 3}, {2, 0, 2}, {1, 0, 0}, {2, 0, 0}}, got, cmp.AllowUnexported(seen{})); diff != "" {
		t.Error(diff)
	}
}

// A mark that the registry has no referrers API must never hide a signature: somebody
// may have asked for something that is not there, and had 404 for an answer.
func TestClient_DoesNotTakeItsOwnMemoryForAbsence(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, signBundle(s))
	c := newFakeClock().client(Options{})
	isOther := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/nothing/referrers/") }
	s.Override(isOther, testkit.Status(http.StatusNotFound))
	want := gate.Want{Signatures: true}
	_, err := c.Evidence(t.Context(), s.Host()+"/nothing", s.digest, want, some(want), nil)
	ok(t, err)
	got := []seen{s.sees(t, c, want, some(want))}
	s.digest = mustPush(t, s.repository, "another")
	ok(t, signBundle(s))
	got = append(got, s.sees(t, c, want, some(want)))
	// The first pays for the wrong mark, with the two tags; the second does not.
	if diff := cmp.Diff([]seen{{1, 0, 5}, {1, 0, 3}}, got, cmp.AllowUnexported(seen{})); diff != "" {
		t.Error(diff)
	}
}

func mustDigest(t testing.TB, s *shop) name.Digest {
	t.Helper()
	ref, err := name.NewDigest(s.repository + "@" + s.digest)
	ok(t, err)
	return ref
}

func mustPush(t testing.TB, repository, content string) string {
	t.Helper()
	digest, err := testkit.PushImage(repository+":other", content)
	ok(t, err)
	return digest
}

// put stores a manifest without a network, for tests that need very many.
func (s *shop) put(t testing.TB, manifest v1.Manifest) v1.Descriptor {
	t.Helper()
	raw, err := json.Marshal(manifest)
	ok(t, err)
	hash, size, err := v1.SHA256(bytes.NewReader(raw))
	ok(t, err)
	path := strings.TrimPrefix(s.repository, s.Host()) + "/manifests/" + hash.String()
	req := httptest.NewRequest(http.MethodPut, "/v2"+path, bytes.NewReader(raw))
	req.Header.Set("Content-Type", string(manifest.MediaType))
	answer := httptest.NewRecorder()
	s.Server.Config.Handler.ServeHTTP(answer, req)
	if answer.Code != http.StatusCreated {
		t.Fatalf("storing a manifest: %d %s", answer.Code, answer.Body)
	}
	return v1.Descriptor{MediaType: manifest.MediaType, Digest: hash, Size: size}
}

// signMany stores so many images, each with one and the same bundle, twenty in a
// repository: the registry looks at all of one to list referrers.
func (s *shop) signMany(t testing.TB, n int) []shop {
	t.Helper()
	ok(t, signBundle(s))
	index, err := ociremote.Referrers(mustDigest(t, s), "")
	ok(t, err)
	image, err := remote.Image(mustDigest(t, s).Context().Digest(index.Manifests[0].Digest.String()))
	ok(t, err)
	stored, err := image.Manifest()
	ok(t, err)
	many := make([]shop, n)
	for i := range many {
		many[i] = shop{Registry: s.Registry, repository: fmt.Sprintf("%s/%d", s.repository, i/20)}
		subject := many[i].put(t, v1.Manifest{
			SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: stored.Config, Layers: []v1.Descriptor{},
			Annotations: map[string]string{"image": fmt.Sprint(i)},
		})
		stored.Subject = &subject
		many[i].put(t, *stored)
		many[i].digest = subject.Digest.String()
	}
	return many
}

func TestClient_AsksNothingForAThousandImagesThatItKnows(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	many := s.signMany(t, 1000)
	want := gate.Want{Signatures: true}
	c := newFakeClock().client(Options{})
	look := func() int {
		s.ResetCounts()
		for _, image := range many {
			found, err := c.Evidence(t.Context(), image.repository, image.digest, want, some(want), nil)
			if err != nil || len(found.Signatures) != 1 {
				t.Fatalf("%d signatures, %v", len(found.Signatures), err)
			}
		}
		return s.Requests()
	}
	// A list and a manifest for each, and the bundle, which is one blob, for each repository.
	if cold, warm := look(), look(); cold != 2050 || warm != 0 {
		t.Errorf("%d requests cold, %d warm", cold, warm)
	}
	if c.found.kept.Bytes() > limits.CacheBytes {
		t.Errorf("%d bytes are kept", c.found.kept.Bytes())
	}
}
