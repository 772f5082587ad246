package registry

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// storeLarge stores bundles that hold so many bytes each, and are labelled as wanted.
func (s *shop) storeLarge(t testing.TB, sizes ...int) {
	t.Helper()
	for i, size := range sizes {
		content := make([]byte, size)
		content[0] = byte(i)
		ok(t, testkit.StoreBundle(s.repository, s.digest, content, provenance))
	}
}

// What is large has a memory of its own: however much of it there is, the signatures of
// other images stay.
func TestClient_KeepsLargeAttestationsApart(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, signBundle(s))
	s.storeLarge(t, 20<<20, 20<<20)
	other := shop{Registry: s.Registry, key: s.key, repository: s.Host() + "/shop/other"}
	other.digest = mustPush(t, other.repository, "another")
	c := newFakeClock().client(Options{})
	want := gate.Want{Signatures: true, Predicates: []string{provenance}}
	enough := func(e Evidence) bool { return len(e.Signatures) == 3 }
	if got := s.sees(t, c, want, enough); got != (seen{3, 0, 7}) {
		t.Errorf("cold: %+v", got)
	}
	if got := s.sees(t, c, want, enough); got != (seen{3, 0, 0}) {
		t.Errorf("warm: %+v", got)
	}
	if c.found.kept.Bytes() > 64<<10 || c.large.kept.Bytes() < 40<<20 || c.large.kept.Bytes() > limits.CacheLargeBytes {
		t.Errorf("%d bytes are kept, and %d of large ones", c.found.kept.Bytes(), c.large.kept.Bytes())
	}
	other.storeLarge(t, 21<<20, 21<<20)
	other.sees(t, c, want, nil)
	if c.large.kept.Bytes() > limits.CacheLargeBytes {
		t.Errorf("%d bytes of large ones are kept", c.large.kept.Bytes())
	}
	signatures := gate.Want{Signatures: true}
	if got := s.sees(t, c, signatures, some(signatures)); got != (seen{1, 0, 0}) {
		t.Errorf("the signature: %+v", got)
	}
}

// The smallest are read first, up to the budget, whatever the order of the list.
func TestClient_ReadsTheSmallestFirst(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	s.storeLarge(t, 22<<20, 20<<20, 3<<20, 21<<20)
	ok(t, attestBundle(s))
	found, err := New(Options{}).Evidence(t.Context(), s.repository, s.digest, gate.Want{Predicates: []string{provenance}}, func(e Evidence) bool { return true }, nil)
	ok(t, err)
	if n := strings.Count(reasons(found.Attestations), "(limits.EvidenceBytes)"); n != 1 || len(found.Attestations) != 5 {
		t.Errorf("%d of %d are not read: %s", n, len(found.Attestations), reasons(found.Attestations))
	}
	s = newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, attestTag(s))
	s.storeLarge(t, 22<<20, 22<<20, 3<<20)
	found, err = New(Options{}).Evidence(t.Context(), s.repository, s.digest, gate.Want{Predicates: []string{provenance}}, nil, nil)
	ok(t, err)
	if len(found.Attestations) != 4 || reasons(found.Attestations) != "" {
		t.Errorf("what stands under .att is not read beside 47 MiB: %s", reasons(found.Attestations))
	}
}

// A manifest of anybody's that describes its content wrong costs that content, and not
// the signature beside it.
func TestClient_LeavesUnreadWhatItsAuthorDescribesWrong(t *testing.T) {
	for title, tc := range map[string]struct {
		content, told int64
		says          string
	}{
		"shorter than it says":              {100, 200, "not as long as its manifest says"},
		"longer than it says":               {200, 100, "not as long as its manifest says"},
		"longer than it says by a megabyte": {limits.SignatureBlobBytes + 1, 100, "(limits.SignatureBlobBytes)"},
		"of a negative size":                {100, -1, "something other than a SHA-256 and a size"},
	} {
		t.Run(title, func(t *testing.T) {
			s := newShop(t, testkit.RegistryOptions{Referrers: true})
			ok(t, signBundle(s))
			layer := static.NewLayer(make([]byte, tc.content), types.MediaType(bundleTypePrefix+".v0.3+json"))
			ok(t, remote.WriteLayer(mustDigest(t, s).Context(), layer))
			digest, err := layer.Digest()
			ok(t, err)
			subject, err := v1.NewHash(s.digest)
			ok(t, err)
			s.put(t, v1.Manifest{
				SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
				Config:  v1.Descriptor{MediaType: bundleTypePrefix + ".v0.3+json", Digest: digest, Size: tc.content},
				Layers:  []v1.Descriptor{{MediaType: bundleTypePrefix + ".v0.3+json", Digest: digest, Size: tc.told}},
				Subject: &v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: subject, Size: 1},
			})
			found, err := s.look(t.Context(), New(Options{}), nil)
			if err != nil || len(found) != 2 || !strings.Contains(reasons(found), tc.says) {
				t.Errorf("%d found, %s, %v", len(found), reasons(found), err)
			}
		})
	}
}
