package registry_test

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// From a Pod that names a tag to the decision, by a real registry and real signatures.
func TestTrust_FromReferenceToOutcome(t *testing.T) {
	key, err := testkit.NewKey()
	ok(t, err)
	other, err := testkit.NewKey()
	ok(t, err)
	for title, tc := range map[string]struct {
		options testkit.RegistryOptions
		prepare func(repository string) (signErr error)
		want    gate.ImageOutcome
	}{
		"an image signed by cosign v2": {testkit.RegistryOptions{}, func(repository string) error {
			return signed(repository, false, key.SignTag)
		}, gate.ImageVerified},
		"an image signed by cosign v3": {testkit.RegistryOptions{Referrers: true}, func(repository string) error {
			return signed(repository, false, key.SignBundle)
		}, gate.ImageVerified},
		"cosign v3, no referrers API": {testkit.RegistryOptions{}, func(repository string) error {
			return signed(repository, false, key.SignBundle)
		}, gate.ImageVerified},
		"cosign v3, listed by the empty config's type": {testkit.RegistryOptions{Referrers: true, EmptyArtifactTypes: true}, func(repository string) error {
			return signed(repository, false, key.SignBundle)
		}, gate.ImageVerified},
		"an index signed as a whole, v2": {testkit.RegistryOptions{}, func(repository string) error {
			return signed(repository, true, key.SignTag)
		}, gate.ImageVerified},
		"an index signed as a whole, v3": {testkit.RegistryOptions{Referrers: true}, func(repository string) error {
			return signed(repository, true, key.SignBundle)
		}, gate.ImageVerified},
		"signed by somebody else": {testkit.RegistryOptions{Referrers: true}, func(repository string) error {
			return signed(repository, false, other.SignBundle)
		}, gate.ImageUntrusted},
		"attested and not signed": {testkit.RegistryOptions{Referrers: true}, func(repository string) error {
			return signed(repository, false, func(repository, digest string, _ ...remote.Option) error {
				return key.AttestBundle(repository, digest, "https://cosign.sigstore.dev/attestation/vuln/v1", map[string]string{"result": "FAILED"})
			})
		}, gate.ImageUnsigned},
		"an attestation that is labelled a signature": {testkit.RegistryOptions{Referrers: true}, func(repository string) error {
			return signed(repository, false, func(repository, digest string, _ ...remote.Option) error {
				bundle, err := key.Bundle(digest, "https://slsa.dev/provenance/v1", nil)
				if err != nil {
					return err
				}
				return testkit.StoreBundle(repository, digest, bundle, testkit.PredicateSign)
			})
		}, gate.ImageUnsigned},
	} {
		t.Run(title, func(t *testing.T) {
			server := testkit.NewRegistry(tc.options)
			t.Cleanup(server.Close)
			repository := server.Host() + "/shop/web"
			ok(t, tc.prepare(repository))
			image := gathered(t, repository+":1")
			in := &gate.Input{Images: []gate.Image{image}, Gate: gate.Config{Name: "prod", DenyUnmatched: true, Images: []gate.ImageRule{{
				Match: server.Host() + "/shop/**", Require: gate.Requirement{Count: 1},
				Authorities: []gate.Authority{{Name: "release-key", PublicKeyPEM: key.PublicPEM}},
			}}}}
			if !signature.Needed(in.Gate, image) {
				t.Error("the registry is not asked")
			}
			f := signature.New().Evaluate(t.Context(), in)
			if f.Images[0].Outcome != tc.want || (len(f.Deny) == 0) != (tc.want == gate.ImageVerified) {
				t.Errorf("got %+v", f)
			}
		})
	}
}

func signed(repository string, index bool, sign func(repository, digest string, options ...remote.Option) error) error {
	var digest string
	var err error
	if index {
		i, buildErr := testkit.Index("web")
		if buildErr != nil {
			return buildErr
		}
		digest, err = testkit.Push(repository+":1", i)
	} else {
		digest, err = testkit.PushImage(repository+":1", "web")
	}
	if err != nil {
		return err
	}
	return sign(repository, digest)
}

func gathered(t *testing.T, ref string) gate.Image {
	t.Helper()
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "shop"},
		"spec": map[string]any{"containers": []any{map[string]any{"image": ref}}}}
	collected, err := images.Collect([]map[string]any{pod})
	ok(t, err)
	image := collected[0]
	parsed, err := images.Parse(image.Ref)
	ok(t, err)
	client := registry.New(registry.Options{})
	image.Digest, err = client.Resolve(t.Context(), parsed, nil)
	ok(t, err)
	found, err := client.Evidence(t.Context(), image.Repository, image.Digest, gate.Want{Signatures: true}, nil, nil)
	ok(t, err)
	image.Signatures = found.Signatures
	return image
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
