package registry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// pushLayer writes one layer under a tag.
func (s *shop) pushLayer(t testing.TB, tag string, mediaType types.MediaType, content string, annotations map[string]string) {
	t.Helper()
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: static.NewLayer([]byte(content), mediaType), Annotations: annotations,
	})
	ok(t, err)
	_, err = testkit.Push(s.repository+":"+tag, img)
	ok(t, err)
}

// pushAnnotated writes layers under a tag, each with other content and the same annotations.
func (s *shop) pushAnnotated(t testing.TB, tag string, mediaType types.MediaType, n int, annotations map[string]string) {
	t.Helper()
	var layers []mutate.Addendum
	for i := range n {
		layers = append(layers, mutate.Addendum{Layer: static.NewLayer(fmt.Appendf(nil, "payload %d", i), mediaType), Annotations: annotations})
	}
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layers...)
	ok(t, err)
	_, err = testkit.Push(s.repository+":"+tag, img)
	ok(t, err)
}

func TestClient_TakesKeylessMaterialFromAnnotations(t *testing.T) {
	annotations := map[string]string{
		"dev.cosignproject.cosign/signature": "c2ln", "dev.sigstore.cosign/certificate": "CERT", "dev.sigstore.cosign/chain": "CHAIN",
		"dev.sigstore.cosign/bundle": `{"SignedEntryTimestamp":""}`, "dev.sigstore.cosign/rfc3161timestamp": `{"SignedRFC3161Timestamp":""}`,
		"predicateType": provenance,
	}
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	envelope, err := s.key.Envelope(s.digest, provenance, nil)
	ok(t, err)
	s.pushLayer(t, testkit.SignatureTag(s.digest), "application/vnd.dev.cosign.simplesigning.v1+json", "payload", annotations)
	s.pushLayer(t, testkit.AttestationTag(s.digest), envelopeType, string(envelope), annotations)
	found, err := New(Options{}).Evidence(t.Context(), s.repository, s.digest, gate.Want{Signatures: true, Predicates: []string{provenance}}, nil, nil)
	ok(t, err)
	signature := gate.Signature{
		Format: gate.FormatCosignTag, Payload: []byte("payload"), Base64: "c2ln", Certificate: []byte("CERT"),
		RekorBundle: []byte(`{"SignedEntryTimestamp":""}`), Timestamp: []byte(`{"SignedRFC3161Timestamp":""}`),
	}
	attestation := signature
	attestation.Format, attestation.Payload, attestation.Base64 = gate.FormatAttestationTag, envelope, ""
	if diff := cmp.Diff(Evidence{Signatures: []gate.Signature{signature}, Attestations: []gate.Signature{attestation}}, found); diff != "" {
		t.Error(diff)
	}
}

func TestClient_BoundsEveryAnnotation(t *testing.T) {
	for _, annotation := range []string{signatureAnnotation, certificateAnnotation, rekorAnnotation, timestampAnnotation} {
		t.Run(annotation, func(t *testing.T) {
			for length, want := range map[int]bool{limits.SignatureAnnotationBytes: true, limits.SignatureAnnotationBytes + 1: false} {
				s := newShop(t, testkit.RegistryOptions{Referrers: true})
				annotations := map[string]string{signatureAnnotation: "c2ln"}
				annotations[annotation] = strings.Repeat("A", length)
				s.pushLayer(t, testkit.SignatureTag(s.digest), "application/vnd.dev.cosign.simplesigning.v1+json", "payload", annotations)
				s.ResetCounts()
				found, err := s.look(t.Context(), New(Options{}), nil)
				ok(t, err)
				unread := reasons(found)
				if len(found) != 1 || (unread == "") != want || !want && (!strings.Contains(unread, "(limits.SignatureAnnotationBytes)") || s.Counts()["GET blobs"] != 0) {
					t.Errorf("%d bytes: %s, %v", length, unread, s.Counts())
				}
			}
		})
	}
}

func TestClient_SortsByTheStatementAndNotByItsLabel(t *testing.T) {
	const sbom = "https://spdx.dev/Document"
	want := gate.Want{Signatures: true, Predicates: []string{provenance}}
	bundleOf := func(predicate, label string) step {
		return func(s *shop) error {
			bundle, err := s.key.Bundle(s.digest, predicate, nil)
			if err != nil {
				return err
			}
			return testkit.StoreBundle(s.repository, s.digest, bundle, label)
		}
	}
	envelopeOf := func(predicate string, annotations map[string]string) step {
		return func(s *shop) error {
			envelope, err := s.key.Envelope(s.digest, predicate, nil)
			if err != nil {
				return err
			}
			return testkit.StoreEnvelope(s.repository, s.digest, envelope, annotations)
		}
	}
	for title, tc := range map[string]struct {
		store                    step
		signatures, attestations int
		blobs                    int
	}{
		"an attestation labelled a signature": {bundleOf(provenance, predicateSign), 0, 1, 1},
		"a signature labelled an attestation": {bundleOf(predicateSign, provenance), 1, 0, 1},
		"another type labelled as the wanted": {bundleOf(sbom, provenance), 0, 0, 1},
		"the wanted type labelled as another": {bundleOf(provenance, sbom), 0, 0, 0},
		"a type that differs in its case":     {bundleOf(strings.ToUpper(provenance), provenance), 0, 0, 1},
		"a bundle that cannot be read":        {func(s *shop) error { return testkit.StoreBundle(s.repository, s.digest, []byte("{"), predicateSign) }, 1, 0, 1},
		"an envelope":                         {envelopeOf(provenance, map[string]string{"predicateType": provenance}), 0, 1, 1},
		"an envelope without a label":         {envelopeOf(provenance, nil), 0, 1, 1},
		"an envelope labelled as another":     {envelopeOf(provenance, map[string]string{"predicateType": sbom}), 0, 0, 0},
		"another envelope without a label":    {envelopeOf(sbom, nil), 0, 0, 1},
		"a signature in an envelope":          {envelopeOf(predicateSign, nil), 0, 0, 1},
		"a layer of another type under .att": {func(s *shop) error {
			s.pushLayer(t, testkit.AttestationTag(s.digest), "application/x-junk", "x", nil)
			return nil
		}, 0, 0, 0},
	} {
		t.Run(title, func(t *testing.T) {
			s := newShop(t, testkit.RegistryOptions{Referrers: true})
			ok(t, tc.store(s))
			s.ResetCounts()
			found, err := New(Options{}).Evidence(t.Context(), s.repository, s.digest, want, nil, nil)
			if err != nil || len(found.Signatures) != tc.signatures || len(found.Attestations) != tc.attestations || s.Counts()["GET blobs"] != tc.blobs {
				t.Errorf("%d signatures, %d attestations, %v, %v", len(found.Signatures), len(found.Attestations), s.Counts(), err)
			}
		})
	}
}

// Nothing about an attachment's size is tried out.
func TestClient_LeavesTwoGigabytesUnread(t *testing.T) {
	for title, place := range map[string]string{"a layer under .sig": ".sig", "a layer under .att": ".att"} {
		t.Run(title, func(t *testing.T) {
			s := newShop(t, testkit.RegistryOptions{Referrers: true})
			s.Override(testkit.PathContains(place), body(`{"schemaVersion":2,"layers":[{"mediaType":"`+envelopeType+`","digest":"`+s.digest+
				`","size":2147483648,"annotations":{"dev.cosignproject.cosign/signature":"c2ln"}}]}`))
			s.leavesUnread(t, map[string]string{".sig": "limits.SignatureBlobBytes", ".att": "limits.AttestationBytes"}[place], 2+1)
		})
	}
	t.Run("a bundle's manifest", func(t *testing.T) {
		s := newShop(t, testkit.RegistryOptions{Referrers: true})
		s.Override(testkit.PathContains("/referrers/"), body(`{"schemaVersion":2,"manifests":[{"artifactType":"application/vnd.dev.sigstore.bundle.v0.3+json","digest":"`+
			s.digest+`","size":2147483648}]}`))
		s.leavesUnread(t, "limits.BundleManifestBytes", 1+2)
	})
	t.Run("a bundle", func(t *testing.T) {
		s := newShop(t, testkit.RegistryOptions{Referrers: true})
		manifest := `{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","digest":"` + s.digest + `","size":2147483648}]}`
		s.Override(testkit.PathContains("/manifests/sha256:"), body(manifest))
		s.Override(testkit.PathContains("/referrers/"), body(`{"schemaVersion":2,"manifests":[{"artifactType":"application/vnd.dev.sigstore.bundle.v0.3+json","digest":"`+
			digests.Of([]byte(manifest))+`","size":100}]}`))
		s.leavesUnread(t, "limits.AttestationBytes", 2+2)
	})
}

func (s *shop) leavesUnread(t *testing.T, limit string, requests int) {
	t.Helper()
	s.ResetCounts()
	found, err := New(Options{}).Evidence(t.Context(), s.repository, s.digest, gate.Want{Signatures: true, Predicates: []string{provenance}}, nil, nil)
	ok(t, err)
	unread := reasons(found.Signatures, found.Attestations)
	if !strings.Contains(unread, "("+limit+")") || s.Counts()["GET blobs"] != 0 || s.Requests() != requests {
		t.Errorf("%s after %v", unread, s.Counts())
	}
}

// A referrer that is named by another kind of digest keeps nobody from reading the rest.
func TestClient_PassesByReferrersThatItCannotHoldToTheirDigest(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	s.Override(testkit.PathContains("/referrers/"), body(`{"schemaVersion":2,"manifests":[{"artifactType":"","digest":"sha512:00","size":1},{"digest":7}]}`))
	if _, err := s.look(t.Context(), New(Options{}), nil); err == nil {
		t.Error("a digest that is a number")
	}
	s.Override(testkit.PathContains("/referrers/"), body(`{"schemaVersion":2,"manifests":[{"artifactType":"","digest":"sha512:00","size":1}]}`))
	if found, err := s.look(t.Context(), New(Options{}), nil); err != nil || found != nil {
		t.Errorf("%v, %v", found, err)
	}
}

// Whatever a registry sends as a list or a manifest, reading it ends, and what is read
// can be fetched and held to its digest.
func FuzzDocuments(f *testing.F) {
	for _, seed := range []string{
		`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"artifactType":"","digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","size":1,"platform":{"os":"linux"}}]}`,
		`{"schemaVersion":2,"config":{},"layers":[{"mediaType":"application/vnd.dsse.envelope.v1+json","annotations":{"predicateType":"x"}}]}`,
		`{"dsseEnvelope":{"payload":"eyJwcmVkaWNhdGVUeXBlIjoieCJ9"}}`,
		`{"schemaVersion":2,"Manifests":null,"layers":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		listed, indexErr := parseIndex(raw)
		layers, layersErr := parseLayers(raw)
		if indexErr == nil && layersErr == nil && len(listed) > 0 && len(layers) > 0 {
			t.Error("an index and an image in one")
		}
		for _, d := range listedBundles(listed) {
			if len(d.Digest) != 71 {
				t.Errorf("%+v is picked", d)
			}
		}
		children, err := parseChildren(raw)
		if err == nil && layersErr == nil && children != nil {
			t.Error("children of what is no index")
		}
		for _, d := range children {
			if len(d.Digest) != 71 || strings.ContainsAny(d.Platform.String(), "\n\r\x1b") {
				t.Errorf("%+v is a child", d)
			}
		}
		_, _ = bundlePredicate(raw), envelopePredicate(raw)
	})
}
