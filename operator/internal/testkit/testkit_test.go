package testkit

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	ociremote "github.com/sigstore/cosign/v2/pkg/oci/remote"
)

func must[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newRegistry(t testing.TB, options RegistryOptions) *Registry {
	t.Helper()
	r := NewRegistry(options)
	t.Cleanup(r.Close)
	return r
}

const (
	imageDigest = "sha256:3a6f92bed322b00ff0154c6e5fc2453e2ac36fde04831c0d7abe980c0c307715"
	indexDigest = "sha256:76a3b8fe0a436b450406bee4b604788b9a58394720bd89b5add0894ba89914b4"
)

// The digests are written out: a change of Go or of a library that changes them would
// change what the demo and the docs show.
func TestImage_HasTheSameDigestEverywhere(t *testing.T) {
	img, err := Image("shop/web:1")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := img.Digest()
	if err != nil || hash.String() != imageDigest {
		t.Errorf("image: got %s, %v, want %s", hash, err, imageDigest)
	}
	index, err := Index("shop/web:1")
	if err != nil {
		t.Fatal(err)
	}
	hash, err = index.Digest()
	if err != nil || hash.String() != indexDigest {
		t.Errorf("index: got %s, %v, want %s", hash, err, indexDigest)
	}
	if other := must[string](t)(PushImage(newRegistry(t, RegistryOptions{}).Host()+"/a:1", "shop/web:2")); other == imageDigest {
		t.Error("another name gives the same digest")
	}
}

func TestRegistry_CountsWhatIsAskedAndNotThePing(t *testing.T) {
	r := newRegistry(t, RegistryOptions{})
	ref := r.Host() + "/shop/web:1"
	must[string](t)(PushImage(ref, "web"))
	r.ResetCounts()
	target := must[name.Reference](t)(name.ParseReference(ref))
	if _, err := remote.Get(target); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"GET manifests": 1}, r.Counts()); diff != "" {
		t.Error(diff)
	}
	r.Override(PathContains("/manifests/"), Status(http.StatusTeapot))
	if _, err := remote.Get(target); err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("the override did not answer: %v", err)
	}
	r.Restore()
	if _, err := remote.Get(target); err != nil {
		t.Error(err)
	}
}

// What SignTag writes has to satisfy cosign's own verification.
func TestSignTag_IsWhatCosignVerifies(t *testing.T) {
	r := newRegistry(t, RegistryOptions{})
	repository := r.Host() + "/shop/web"
	digest := must[string](t)(PushImage(repository+":1", "web"))
	key, second := must[*Key](t)(NewKey()), must[*Key](t)(NewKey())
	for _, k := range []*Key{key, second} {
		if err := k.SignTag(repository, digest); err != nil {
			t.Fatal(err)
		}
	}
	ref := must[name.Digest](t)(name.NewDigest(repository + "@" + digest))
	for _, k := range []*Key{key, second} {
		opts := &cosign.CheckOpts{SigVerifier: k.signer, IgnoreTlog: true, IgnoreSCT: true, ClaimVerifier: cosign.SimpleClaimVerifier, Offline: true}
		found, _, err := cosign.VerifyImageSignatures(t.Context(), ref, opts)
		if err != nil || len(found) != 1 {
			t.Errorf("%d signatures, %v", len(found), err)
		}
	}
}

func TestSignBundle_IsListedWithAndWithoutTheReferrersAPI(t *testing.T) {
	for title, tc := range map[string]struct {
		options  RegistryOptions
		wantType string
	}{
		"by the API":             {RegistryOptions{Referrers: true}, "application/vnd.dev.sigstore.bundle.v0.3+json"},
		"by an API that errs":    {RegistryOptions{Referrers: true, EmptyArtifactTypes: true}, "application/vnd.oci.empty.v1+json"},
		"under the fallback tag": {RegistryOptions{}, "application/vnd.dev.sigstore.bundle.v0.3+json"},
	} {
		t.Run(title, func(t *testing.T) {
			r := newRegistry(t, tc.options)
			repository := r.Host() + "/shop/web"
			digest := must[string](t)(PushImage(repository+":1", "web"))
			key := must[*Key](t)(NewKey())
			if err := key.SignBundle(repository, digest); err != nil {
				t.Fatal(err)
			}
			ref := must[name.Digest](t)(name.NewDigest(repository + "@" + digest))
			index, err := ociremote.Referrers(ref, "")
			if err != nil || len(index.Manifests) != 1 || index.Manifests[0].ArtifactType != tc.wantType {
				t.Errorf("got %+v, %v", index, err)
			}
		})
	}
}
