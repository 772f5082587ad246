package registry

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// An entry takes three bytes in a list and a hundred in memory.
func TestParse_BoundsTheEntries(t *testing.T) {
	entries := func(n int) string { return strings.TrimSuffix(strings.Repeat("{},", n), ",") }
	for what, parse := range map[string]func([]byte) error{
		"layers":    func(body []byte) error { _, err := parseLayers(body); return err },
		"manifests": func(body []byte) error { _, err := parseIndex(body); return err },
	} {
		for n, want := range map[int]bool{limits.ManifestEntries: true, limits.ManifestEntries + 1: false, limits.ManifestBytes / 3: false} {
			body := []byte(`{"schemaVersion":2,"` + what + `":[` + entries(n) + `]}`)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := parse(body)
			runtime.ReadMemStats(&after)
			if (err == nil) != want || !want && !strings.Contains(err.Error(), "limits.ManifestEntries") {
				t.Errorf("%d %s: %v", n, what, err)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 16 {
				t.Errorf("%d %s take %d MiB", n, what, took)
			}
		}
	}
}

// crowdedIndex has n entries, each of which says that it is about the next one.
func crowdedIndex(n int) []byte {
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf(`{"mediaType":%q,"digest":"sha256:%064x","platform":{"os":"unknown","architecture":"unknown"},"annotations":{%q:"attestation-manifest",%q:"sha256:%064x"}}`,
			types.OCIManifestSchema1, i, referenceTypeAnnotation, referenceDigestAnnotation, i+1))
	}
	return []byte(`{"schemaVersion":2,"manifests":[` + strings.Join(entries, ",") + `]}`)
}

// Only the last entry is about none that is there, and so is an image.
func TestParseChildren_OfACrowdedIndexIsTheOneThatIsAboutNoOther(t *testing.T) {
	children, err := parseChildren(crowdedIndex(100))
	if err != nil || len(children) != 1 || children[0].Digest != fmt.Sprintf("sha256:%064x", 99) {
		t.Errorf("%v: %v", children, err)
	}
}

// Ten times the entries take ten times as long: to look each up among all took 8 s of a core for
// an index of 4 MiB.
func BenchmarkParseChildren(b *testing.B) {
	for _, n := range []int{1200, 12000} {
		index := crowdedIndex(n)
		b.Run(fmt.Sprint(n, " entries"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parseChildren(index); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What whoever may push can write into manifests, and is no evidence, is not kept.
func TestClient_KeepsOfManifestsWhatIsEvidence(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	junk := strings.Repeat("A", limits.SignatureAnnotationBytes)
	annotations := map[string]string{signatureAnnotation: "c2ln"}
	for i := range 4 {
		annotations[fmt.Sprint("junk-", i)] = junk
	}
	s.pushAnnotated(t, testkit.SignatureTag(s.digest), "application/vnd.dev.cosign.simplesigning.v1+json", 10, annotations)
	ok(t, signBundle(s))
	index := `{"schemaVersion":2,"mediaType":"` + string(types.OCIImageIndex) + `","manifests":[{"mediaType":"` + string(types.OCIManifestSchema1) + `","digest":"` + s.digest +
		`","size":2,"platform":{"os":"linux","architecture":"` + strings.Repeat("A", 1<<20) + `"},"annotations":{"junk":"` + strings.Repeat("A", 1<<20) + `"}}]}`
	digest := digests.Of([]byte(index))
	s.Override(testkit.PathContains("/manifests/"+digest), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(index)) }))
	c := New(Options{})
	_, err := c.Evidence(t.Context(), s.repository, s.digest, gate.Want{Signatures: true}, nil, nil)
	ok(t, err)
	found, err := c.Evidence(t.Context(), s.repository, digest, gate.Want{Signatures: true, Children: true}, nil, nil)
	ok(t, err)
	if len(found.Children) != 1 || len(found.Children[0].Signatures) != 11 || len(found.Children[0].Platform) > platformText+4 {
		t.Errorf("%d children", len(found.Children))
	}
	if n := c.found.kept.Bytes(); n > 128<<10 {
		t.Errorf("%d KiB are kept", n>>10)
	}
	if kept, ok := c.found.get(c.session(mustDigest(t, s).Context(), access{}).key("index\x00"+digest), limits.CacheTTL); !ok || len(kept.([]descriptor)[0].Platform.Architecture) > 1<<10 {
		t.Error("a platform is kept as it is written")
	}
}

// An object names many images, and each may have a list of MiB: they are read in turn. Lists of
// usual size are not held up by them.
func TestClient_ReadsFewLargeListsAtATime(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	long := strings.Repeat("A", limits.SignatureAnnotationBytes)
	s.pushAnnotated(t, testkit.SignatureTag(s.digest), "application/vnd.dev.cosign.simplesigning.v1+json", 3, map[string]string{signatureAnnotation: "c2ln", rekorAnnotation: long})
	small := shop{Registry: s.Registry, key: s.key, repository: s.Host() + "/shop/small"}
	small.digest = mustPush(t, small.repository, "small")
	ok(t, signBundle(&small))
	c := New(Options{})
	look := func(s *shop, owner string, wait time.Duration) (Evidence, error) {
		ctx, end := context.WithTimeout(t.Context(), wait)
		defer end()
		ctx, over := InTurn(ctx, owner, 1)
		defer over()
		return c.Evidence(ctx, s.repository, s.digest, gate.Want{Signatures: true}, nil, nil)
	}
	if !c.wide.try("namespace/a") {
		t.Fatal("there is no turn")
	}
	// Who has one reads no other.
	if found, err := look(s, "namespace/a", time.Second); err == nil {
		t.Errorf("%d are read out of turn", len(found.Signatures))
	}
	if found, err := look(&small, "namespace/a", time.Minute); err != nil || len(found.Signatures) != 1 {
		t.Errorf("a small one: %d, %v", len(found.Signatures), err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	ended, over := InTurn(ended, "namespace/a", 1)
	defer over()
	_, err := wide(ended, c.session(mustDigest(t, s).Context(), access{}), func(limit extent) (int, error) {
		return 0, &limitError{name: limit.name}
	})
	if err == nil || !strings.Contains(err.Error(), "limits.LargeDocuments") {
		t.Errorf("out of turn: %v", err)
	}
	c.wide.leave("namespace/a")
	if found, err := look(s, "namespace/a", time.Minute); err != nil || len(found.Signatures) != 3 {
		t.Errorf("in its turn: %d, %v", len(found.Signatures), err)
	}
	if n := c.wide.now(); n != 0 {
		t.Errorf("%d turns are not over", n)
	}
}

// A referrer's manifest names a bundle or some. One of MiB is passed over, whatever the list
// says of its size, and is not taken for absent.
func TestClient_PassesByALargeManifestOfABundle(t *testing.T) {
	for title, size := range map[string]int{"as its list says": 0, "other than its list says": 10} {
		s := newShop(t, testkit.RegistryOptions{Referrers: true})
		ok(t, signBundle(s))
		manifest := `{"schemaVersion":2,"layers":[],"annotations":{"junk":"` + strings.Repeat("A", limits.BundleManifestBytes) + `"}}`
		digest := digests.Of([]byte(manifest))
		if size == 0 {
			size = len(manifest)
		}
		list := fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"digest":%q,"size":%d,"artifactType":%q}]}`, digest, size, bundleTypePrefix+".v0.3+json")
		for path, body := range map[string]string{"/manifests/" + digest: manifest, "/referrers/" + s.digest: list} {
			s.Override(testkit.PathContains(path), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		}
		found, err := New(Options{}).Evidence(t.Context(), s.repository, s.digest, gate.Want{Signatures: true}, nil, nil)
		if err != nil || len(found.Signatures) != 1 || !strings.Contains(reasons(found.Signatures), "limits.BundleManifestBytes") {
			t.Errorf("%s: %v, %d: %s", title, err, len(found.Signatures), reasons(found.Signatures))
		}
	}
}
