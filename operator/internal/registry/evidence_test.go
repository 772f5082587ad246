package registry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const provenance = "https://slsa.dev/provenance/v1"

func formats(found []gate.Signature) []gate.SignatureFormat {
	var out []gate.SignatureFormat
	for _, f := range found {
		out = append(out, f.Format)
	}
	return out
}

// some is enough of what is wanted.
func some(want gate.Want) func(Evidence) bool {
	return func(e Evidence) bool {
		return (!want.Signatures || len(e.Signatures) > 0) && len(e.Attestations) >= len(want.Predicates)
	}
}

// overlap is long enough for requests that are sent together to be under way together.
const overlap = 40 * time.Millisecond

type step func(*shop) error

func signTag(s *shop) error      { return s.key.SignTag(s.repository, s.digest) }
func signBundle(s *shop) error   { return s.key.SignBundle(s.repository, s.digest) }
func attestTag(s *shop) error    { return s.key.AttestTag(s.repository, s.digest, provenance, nil) }
func attestBundle(s *shop) error { return s.key.AttestBundle(s.repository, s.digest, provenance, nil) }

func vulnerabilities(s *shop) error {
	return s.key.AttestBundle(s.repository, s.digest, "https://cosign.sigstore.dev/attestation/vuln/v1", map[string]string{"result": "FAILED"})
}

// What a look by digest costs, for the first image and for a second one in the same
// registry, and how deep the requests hang on each other when it goes by a tag.
func TestClient_AsksForAsLittleAsThereIs(t *testing.T) {
	withAPI, without := testkit.RegistryOptions{Referrers: true}, testkit.RegistryOptions{}
	listedByConfig := testkit.RegistryOptions{Referrers: true, EmptyArtifactTypes: true}
	signatures := gate.Want{Signatures: true}
	attestations := gate.Want{Predicates: []string{provenance}}
	both := gate.Want{Signatures: true, Predicates: []string{provenance}}
	tag, bundle, att := gate.FormatCosignTag, gate.FormatBundle, gate.FormatAttestationTag
	type list = []gate.SignatureFormat
	for title, tc := range map[string]struct {
		options            testkit.RegistryOptions
		steps              []step
		want               gate.Want
		signed, attested   list
		first, then, depth int
	}{
		"nothing is wanted":                       {withAPI, []step{signBundle}, gate.Want{}, nil, nil, 0, 0, 1},
		"a bundle":                                {withAPI, []step{signBundle}, signatures, list{bundle}, nil, 3, 3, 4},
		"a bundle listed by the config's type":    {listedByConfig, []step{signBundle}, signatures, list{bundle}, nil, 3, 3, 4},
		"a bundle under the fallback tag":         {without, []step{signBundle}, signatures, list{bundle}, nil, 4, 3, 5},
		"a .sig tag":                              {withAPI, []step{signTag}, signatures, list{tag}, nil, 3, 3, 4},
		"a .sig tag, no API":                      {without, []step{signTag}, signatures, list{tag}, nil, 4, 3, 5},
		"a bundle and a .sig tag":                 {withAPI, []step{signTag, signBundle}, signatures, list{bundle}, nil, 3, 3, 4},
		"unsigned":                                {withAPI, nil, signatures, nil, nil, 2, 2, 3},
		"unsigned, no API":                        {without, nil, signatures, nil, nil, 3, 3, 4},
		"an attestation in a bundle":              {withAPI, []step{attestBundle}, attestations, nil, list{bundle}, 3, 3, 4},
		"one under the fallback tag":              {without, []step{attestBundle}, attestations, nil, list{bundle}, 4, 3, 5},
		"a .att tag":                              {withAPI, []step{attestTag}, attestations, nil, list{att}, 3, 3, 4},
		"a .att tag, no API":                      {without, []step{attestTag}, attestations, nil, list{att}, 4, 3, 5},
		"bundles of both":                         {withAPI, []step{signBundle, attestBundle}, both, list{bundle}, list{bundle}, 5, 5, 4},
		"tags of both":                            {withAPI, []step{signTag, attestTag}, both, list{tag}, list{att}, 5, 5, 4},
		"an attestation only, a signature wanted": {withAPI, []step{attestBundle, attestTag}, signatures, nil, nil, 2, 2, 3},
		"a failed scan is no signature":           {withAPI, []step{vulnerabilities}, both, nil, nil, 3, 3, 3},
		"signed, an attestation wanted":           {withAPI, []step{signTag, signBundle}, attestations, nil, nil, 2, 2, 3},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, tc.options)
			other := *s
			other.repository = s.Host() + "/shop/other"
			digest, err := testkit.PushImage(other.repository+":1", "another image")
			ok(t, err)
			other.digest = digest
			for _, prepare := range tc.steps {
				ok(t, prepare(s))
				ok(t, prepare(&other))
			}
			s.SetLatency(overlap)
			c := New(Options{})
			for i, shop := range []*shop{s, &other} {
				s.ResetCounts()
				found, err := c.Evidence(t.Context(), shop.repository, shop.digest, tc.want, some(tc.want), nil)
				ok(t, err)
				if diff := cmp.Diff([]list{tc.signed, tc.attested}, []list{formats(found.Signatures), formats(found.Attestations)}); diff != "" {
					t.Error(diff)
				}
				if want := []int{tc.first, tc.then}[i]; s.Requests() != want {
					t.Errorf("image %d: %d requests by digest, want %d: %v", i, s.Requests(), want, s.Counts())
				}
			}
			s.ResetCounts()
			c = New(Options{})
			digest, err = c.Resolve(t.Context(), s.ref(t, ":1"), nil)
			if err != nil || digest != s.digest {
				t.Errorf("resolved to %s, %v", digest, err)
			}
			_, err = c.Evidence(t.Context(), s.repository, digest, tc.want, some(tc.want), nil)
			ok(t, err)
			if s.Requests() != tc.first+1 || s.Depth() != tc.depth {
				t.Errorf("by tag %d requests, %d deep, want %d and %d: %v", s.Requests(), s.Depth(), tc.first+1, tc.depth, s.Counts())
			}
		})
	}
}
