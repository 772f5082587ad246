package registry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// indexed is a shop with an index of two platforms in place of the image, and the digests
// of the images in it.
func indexed(t *testing.T, options testkit.RegistryOptions) (*shop, []string) {
	t.Helper()
	s := newShop(t, options)
	index, err := testkit.Index("web")
	ok(t, err)
	s.digest, err = testkit.Push(s.repository+":index", index)
	ok(t, err)
	manifest, err := index.IndexManifest()
	ok(t, err)
	var digests []string
	for _, m := range manifest.Manifests {
		digests = append(digests, m.Digest.String())
	}
	s.ResetCounts()
	return s, digests
}

func TestClient_ReadsTheSignaturesOfEachImageInAnIndex(t *testing.T) {
	want := gate.Want{Children: true}
	allSigned := func(e Evidence) bool {
		for _, c := range e.Children {
			if len(c.Signatures) == 0 {
				return false
			}
		}
		return len(e.Children) == 2
	}
	bundle := func(s *shop, digest string) error { return s.key.SignBundle(s.repository, digest) }
	tag := func(s *shop, digest string) error { return s.key.SignTag(s.repository, digest) }
	for title, tc := range map[string]struct {
		sign                []func(*shop, string) error
		signatures          [2]int
		requests, requests2 int
	}{
		"each has a bundle":         {[]func(*shop, string) error{bundle, bundle}, [2]int{1, 1}, 1 + 2*3, 0},
		"each has a .sig tag":       {[]func(*shop, string) error{tag, tag}, [2]int{1, 1}, 1 + 2*3, 0},
		"one of each":               {[]func(*shop, string) error{bundle, tag}, [2]int{1, 1}, 1 + 3 + 3 + 1, 0},
		"only one, which is denied": {[]func(*shop, string) error{bundle, nil}, [2]int{1, 0}, 1 + 3 + 1 + 2, 0},
	} {
		t.Run(title, func(t *testing.T) {
			s, digests := indexed(t, testkit.RegistryOptions{Referrers: true})
			for i, sign := range tc.sign {
				if sign != nil {
					ok(t, sign(s, digests[i]))
				}
			}
			c := newFakeClock().client(Options{})
			for _, requests := range []int{tc.requests, tc.requests2} {
				s.ResetCounts()
				found, err := c.Evidence(t.Context(), s.repository, s.digest, want, allSigned, nil)
				ok(t, err)
				var got []string
				for _, c := range found.Children {
					got = append(got, fmt.Sprint(c.Digest, c.Platform, len(c.Signatures)))
				}
				expected := []string{fmt.Sprint(digests[0], "linux/amd64", tc.signatures[0]), fmt.Sprint(digests[1], "linux/arm64", tc.signatures[1])}
				if diff := cmp.Diff(expected, got); diff != "" {
					t.Error(diff)
				}
				if s.Requests() != requests || found.Signatures != nil {
					t.Errorf("%d requests, want %d: %v", s.Requests(), requests, s.Counts())
				}
			}
		})
	}
}

func TestClient_TellsAnImageFromAnIndex(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	found, err := New(Options{}).Evidence(t.Context(), s.repository, s.digest, gate.Want{Children: true}, nil, nil)
	if err != nil || found.Children != nil {
		t.Errorf("an image: %+v, %v", found, err)
	}
	putIndex(t, s.repository+":empty", nil)
	digest, err := New(Options{}).Resolve(t.Context(), s.ref(t, ":empty"), nil)
	ok(t, err)
	found, err = New(Options{}).Evidence(t.Context(), s.repository, digest, gate.Want{Children: true}, nil, nil)
	if err != nil || found.Children == nil || len(found.Children) != 0 {
		t.Errorf("an empty index: %+v, %v", found, err)
	}
	_, err = New(Options{}).Evidence(t.Context(), s.repository, testkit.DigestOf("nothing"), gate.Want{Children: true}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("nothing: %v", err)
	}
}

func TestClient_OpensNoIndexThatIsTooLarge(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	putIndex(t, s.repository+":large", junk(limits.ImageChildren+1, ""))
	digest, err := New(Options{}).Resolve(t.Context(), s.ref(t, ":large"), nil)
	ok(t, err)
	s.ResetCounts()
	_, err = New(Options{}).Evidence(t.Context(), s.repository, digest, gate.Want{Children: true}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "(limits.ImageChildren)") || s.Requests() != 1 {
		t.Errorf("%v after %v", err, s.Counts())
	}
}

func TestParseChildren_LeavesOutBuildAttestationsAndNothingElse(t *testing.T) {
	image, attestation, other := testkit.DigestOf("image"), testkit.DigestOf("attestation"), testkit.DigestOf("other")
	entry := func(digest, platform, more string) string {
		if platform != "" {
			os, arch, _ := strings.Cut(platform, "/")
			more += fmt.Sprintf(`,"platform":{"os":%q,"architecture":%q}`, os, arch)
		}
		return fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,"digest":%q%s}`, digest, more)
	}
	about := func(digest string) string {
		return fmt.Sprintf(`,"annotations":{"vnd.docker.reference.type":"attestation-manifest","vnd.docker.reference.digest":%q}`, digest)
	}
	index := func(entries ...string) string {
		return `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[` + strings.Join(entries, ",") + `]}`
	}
	amd64 := entry(image, "linux/amd64", "")
	for title, tc := range map[string]struct {
		body string
		want []string
		err  string
	}{
		"an attestation of BuildKit":                    {index(amd64, entry(attestation, "unknown/unknown", about(image))), []string{image}, ""},
		"an unknown platform without its mark":          {index(amd64, entry(other, "unknown/unknown", "")), []string{image, other}, ""},
		"the mark with a platform":                      {index(amd64, entry(other, "linux/arm64", about(image))), []string{image, other}, ""},
		"the mark without a platform":                   {index(amd64, entry(other, "", about(image))), []string{image, other}, ""},
		"the mark about nothing in the index":           {index(amd64, entry(other, "unknown/unknown", about(attestation))), []string{image, other}, ""},
		"the mark about itself":                         {index(amd64, entry(other, "unknown/unknown", about(other))), []string{image, other}, ""},
		"the mark on what is an image too":              {index(entry(image, "unknown/unknown", about(other)), amd64, entry(other, "linux/arm64", "")), []string{image, other}, ""},
		"the mark on an index":                          {index(amd64, strings.Replace(entry(other, "unknown/unknown", about(image)), "image.manifest", "image.index", 1)), nil, "another index"},
		"an image without a platform":                   {index(amd64, entry(other, "", "")), []string{image, other}, ""},
		"one image twice":                               {index(amd64, amd64), []string{image}, ""},
		"a Docker manifest list":                        {strings.Replace(index(amd64), "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json", 1), []string{image}, ""},
		"an index that does not say that it is":         {`{"schemaVersion":2,"manifests":[` + amd64 + `]}`, []string{image}, ""},
		"an empty index":                                {index(), []string{}, ""},
		"an image":                                      {`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[]}`, nil, ""},
		"another kind of digest":                        {index(entry("sha512:00", "linux/amd64", "")), nil, "other than a SHA-256"},
		"an index for one reader, an image for another": {`{"schemaVersion":2,"config":{},"layers":[],"manifests":[` + amd64 + `]}`, nil, "in one"},
		"an image by its type, with images in it":       {`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","manifests":[` + amd64 + `]}`, nil, "in one"},
		"two lists of images":                           {strings.TrimSuffix(index(amd64), "}") + `,"manifests":[` + entry(other, "linux/arm64", "") + `]}`, nil, "in two ways"},
		"two lists, in other case":                      {strings.TrimSuffix(index(amd64), "}") + `,"Manifests":[` + entry(other, "linux/arm64", "") + `]}`, nil, "in two ways"},
		"two platforms of an image":                     {index(entry(other, "linux/arm64", `,"platform":{"os":"unknown","architecture":"unknown"}`)), nil, "in two ways"},
		"another version":                               {`{"schemaVersion":1,"manifests":[]}`, nil, "neither"},
	} {
		children, err := parseChildren([]byte(tc.body))
		var got []string
		if children != nil {
			got = []string{}
		}
		for _, c := range children {
			got = append(got, c.Digest)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v %s", title, err, diff)
		}
	}
}

func TestPlatform_IsSafeToPrint(t *testing.T) {
	for want, p := range map[string]*platform{
		"":               nil,
		"linux/arm64/v8": {OS: "linux", Architecture: "arm64", Variant: "v8"},
		`a\n\x1b/b`:      {OS: "a\n\x1b", Architecture: "b"},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := (&platform{OS: strings.Repeat("x", 1<<16)}).String(); len(got) > platformText+len("…") {
		t.Errorf("%d bytes", len(got))
	}
}
