package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	bundleType   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	emptyType    = "application/vnd.oci.empty.v1+json"
	sbom         = "https://spdx.dev/Document"

	// held is how long the last byte of an answer is kept back: all that are asked for within
	// that time, and in less than limits.RegistryCall, are held together.
	held = 4 * time.Second
)

// scenario is one way to make evidence large.
type scenario struct {
	name string
	// images of each decision.
	images int
	// answers by the last two parts of a path: "referrers", or what a digest or a tag stands for.
	referrers, signatures []byte
	content               map[string][]byte
	// header has many lines in every answer.
	header bool
	// slow is what is held back: referrers, manifests or blobs. What comes before it is not.
	slow string
}

// scenarios are all of them. Evidence that has to count is signed with a key that the Gate has.
func scenarios(key *testkit.Key) ([]scenario, error) {
	large, err := attested(key)
	if err != nil {
		return nil, err
	}
	return []scenario{
		{name: "lists", slow: "referrers", images: limits.ImagesPerObject, referrers: list("manifests", entries(limits.DocumentBytes, `{}`)), signatures: list("layers", entries(limits.DocumentBytes, `{}`))},
		{name: "headers", slow: "referrers", images: limits.ImagesPerObject, header: true, referrers: list("manifests", nil)},
		manifests("manifests", "manifests", func(i int) []byte {
			one := described(bundleType, testkit.DigestOf(strconv.Itoa(i)), 10)
			return pad(list("layers", append([]string{one}, entries(limits.BundleManifestBytes-1024, `{}`)...)), limits.BundleManifestBytes)
		}),
		understated(),
		{name: "wide", slow: "referrers", images: limits.ImagesPerObject, referrers: pad(list("manifests", entries(limits.ManifestBytes, `{}`)), limits.ManifestBytes), signatures: pad(list("layers", entries(limits.ManifestBytes, `{}`)), limits.ManifestBytes)},
		blobs("small", limits.ImagesPerObject, limits.SmallEvidence/limits.ImagesPerObject-1024, 1),
		blobs("some", 8, limits.LargeEvidence/8-4096, 1),
		blobs("much", 2, 15<<20, 3),
		parts("entries", `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"tlogEntries":[`, `{},`, `{}]}}`),
		bodies(),
		parts("names", `{"dsseEnvelope":{"payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"YQ=="}],"payload":"`, "", `"}}`),
		large,
	}, nil
}

// list is a document with entries, as many as may be in one.
func list(field string, all []string) []byte {
	mediaType, more := indexType, ""
	if field == "layers" {
		mediaType, more = manifestType, `"config":{},`
	}
	all = all[:min(len(all), limits.ManifestEntries)]
	return fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,%s%q:[%s]}`, mediaType, more, field, strings.Join(all, ","))
}

// entries are as many of the same as fit into so many bytes, beside the rest of a document.
func entries(bytes int, one string) []string {
	all := make([]string, (bytes-200)/(len(one)+1))
	for i := range all {
		all[i] = one
	}
	return all
}

// described is an entry of a list.
func described(mediaType, digest string, size int) string {
	return fmt.Sprintf(`{"mediaType":%q,"artifactType":%q,"digest":%q,"size":%d}`, mediaType, bundleType, digest, size)
}

// pad makes a document as long as it may be.
func pad(document []byte, length int) []byte {
	return append(document, bytes.Repeat([]byte(" "), max(length-len(document), 0))...)
}

// manifests is a list of so many referrers, each with its own manifest.
func manifests(name, slow string, manifest func(i int) []byte) scenario {
	s := scenario{name: name, slow: slow, images: limits.ImagesPerObject, content: map[string][]byte{}}
	var all []string
	for i := range limits.SignaturesPerImage {
		body := manifest(i)
		digest := digests.Of(body)
		s.content[digest] = body
		all = append(all, described(manifestType, digest, len(body)))
	}
	s.referrers = list("manifests", all)
	return s
}

// understated are bundles that their manifests say to have ten bytes.
func understated() scenario {
	contents := map[string][]byte{}
	s := manifests("understated", "blobs", func(i int) []byte {
		blob := pad(fmt.Appendf(nil, `{"i":%d}`, i), limits.SignatureBlobBytes)
		digest := digests.Of(blob)
		contents[digest] = blob
		return list("layers", []string{described(bundleType, digest, 10)})
	})
	for digest, blob := range contents {
		s.content[digest] = blob
	}
	return s
}

// blobs are so many bundles of nothing, of so many bytes each.
func blobs(name string, images, size, count int) scenario {
	contents := map[string][]byte{}
	var layers []string
	for i := range count {
		blob := pad(fmt.Appendf(nil, `{"dsseEnvelope":{"payload":"%d%s"}}`, i, bytes.Repeat([]byte("A"), max(size-64, 0))), size)
		digest := digests.Of(blob)
		contents[digest] = blob
		layers = append(layers, described(bundleType, digest, len(blob)))
	}
	body := list("layers", layers)
	contents[digests.Of(body)] = body
	return scenario{name: name, slow: "blobs", images: images, content: contents, referrers: list("manifests", []string{described(manifestType, digests.Of(body), len(body))})}
}

// parts are two bundles of as many parts as there is room for: in the bundle itself, or, where
// none is given, as names of a statement in it.
func parts(name, begin, one, end string) scenario {
	s := blobs(name, 1, 1024, 1)
	var layers []string
	for i := range 2 {
		var blob []byte
		if one != "" {
			blob = []byte(begin + strings.Repeat(one, (20<<20)/len(one)+i) + end)
		} else {
			statement := bytes.NewBufferString(`{"_type":"https://in-toto.io/Statement/v1","predicateType":"` + sbom + `","predicate":{"i":0`)
			for n := i; statement.Len() < limits.StatementBytes-1024; n++ {
				fmt.Fprintf(statement, `,"%x":0`, n)
			}
			statement.WriteString("}}")
			blob = []byte(begin + base64.StdEncoding.EncodeToString(statement.Bytes()) + end)
		}
		s.content[digests.Of(blob)] = blob
		layers = append(layers, described(bundleType, digests.Of(blob), len(blob)))
	}
	body := list("layers", layers)
	s.content[digests.Of(body)] = body
	s.referrers = list("manifests", []string{described(manifestType, digests.Of(body), len(body))})
	return s
}

// bodies are log entries of many parts, which cannot be counted in the bundle, as they are in base64
// there. What is put together is of three bytes, or a multiple, but for the end.
func bodies() scenario {
	inBase64 := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return parts("bodies", `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","dsseEnvelope":{"payload":"e30=","signatures":[{"sig":"YQ=="}]},`+
		`"verificationMaterial":{"publicKey":{"hint":"a"},"tlogEntries":[{"logIndex":"1","logId":{"keyId":"YQ=="},"kindVersion":{"kind":"dsse","version":"0.0.1"},`+
		`"canonicalizedBody":"`+inBase64(`{"apiVersion":"0.0.1","kind":"dsse","spec": [`), inBase64(strings.Repeat(`{"a":1},`, 3)), inBase64(`{}]}`)+`"}]}}`)
}

// attested are two attestations of as many parts as may be, and signed as they should be.
func attested(key *testkit.Key) (scenario, error) {
	s := blobs("attested", 1, 1024, 1)
	var packages []map[string]any
	for i := range limits.StatementParts/9 - 16 { // each counts for nine
		packages = append(packages, map[string]any{"SPDXID": fmt.Sprintf("%09d%s", i, strings.Repeat("x", 100))})
	}
	var layers []string
	for i := range 2 {
		bundle, err := key.Bundle(digestOf("attested"), sbom, map[string]any{"packages": packages, "i": i})
		if err != nil {
			return s, fmt.Errorf("make a large attestation: %w", err)
		}
		digest := digests.Of(bundle)
		s.content[digest] = bundle
		layers = append(layers, described(bundleType, digest, len(bundle)))
	}
	signature, err := key.Bundle(digestOf("attested"), "https://sigstore.dev/cosign/sign/v1", map[string]any{})
	if err != nil {
		return s, fmt.Errorf("sign an image: %w", err)
	}
	s.content[digests.Of(signature)] = signature
	body := list("layers", append(layers, described(bundleType, digests.Of(signature), len(signature))))
	s.content[digests.Of(body)] = body
	s.referrers = list("manifests", []string{described(manifestType, digests.Of(body), len(body))})
	return s, nil
}

// digestOf is that of every image of a scenario.
func digestOf(scenario string) string { return testkit.DigestOf(scenario) }

// hostile serves scenarios on so many ports. A repository is scenario/anything.
type hostile struct {
	scenarios map[string]scenario
	hosts     []string
	servers   []*http.Server
	// sent is how many answers were sent, and holding how many are held back.
	sent, holding, most atomic.Int64
}

func serve(all []scenario, hosts int) (*hostile, error) {
	h := &hostile{scenarios: map[string]scenario{}}
	for _, s := range all {
		h.scenarios[s.name] = s
	}
	for range hosts {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			h.stop()
			return nil, fmt.Errorf("registry on loopback: %w", err)
		}
		server := &http.Server{Handler: h, ReadHeaderTimeout: limits.RegistryCall}
		h.hosts, h.servers = append(h.hosts, l.Addr().String()), append(h.servers, server)
		go func() { _ = server.Serve(l) }() // ends with Close
	}
	return h, nil
}

func (h *hostile) stop() {
	for _, s := range h.servers {
		_ = s.Close()
	}
}

// ServeHTTP implements http.Handler.
func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v2/"), "/")
	s, ok := h.scenarios[parts[0]]
	if !ok || len(parts) < 4 {
		w.WriteHeader(http.StatusOK)
		return
	}
	var body []byte
	switch what, last := parts[len(parts)-2], parts[len(parts)-1]; {
	case what == "referrers":
		body = s.referrers
	case strings.HasSuffix(last, ".sig") || strings.HasSuffix(last, ".att"):
		body = s.signatures
	default:
		body = s.content[last]
	}
	if s.header {
		for i := range limits.RegistryHeaderBytes / 8 {
			w.Header()[strings.ToUpper(strconv.FormatInt(int64(i), 36))] = []string{""}
		}
	}
	if body == nil {
		http.NotFound(w, r)
		return
	}
	h.most.Store(max(h.most.Load(), h.holding.Add(1)))
	defer h.holding.Add(-1)
	h.sent.Add(1)
	// Without a length the reader's buffer has to grow as it comes.
	_, _ = w.Write(body[:len(body)-1])
	_ = http.NewResponseController(w).Flush()
	if parts[len(parts)-2] == s.slow {
		select {
		case <-time.After(held):
		case <-r.Context().Done():
		}
	}
	_, _ = w.Write(body[len(body)-1:])
}

// pod names a scenario's images in registries from the i-th on.
func (h *hostile) pod(s scenario, namespace string, i int) ([]byte, error) {
	var containers []any
	for k := range s.images {
		host := h.hosts[(i*s.images+k)%len(h.hosts)]
		containers = append(containers, map[string]any{
			"name": fmt.Sprint("c", k), "image": fmt.Sprintf("%s/%s/d%d-%d@%s", host, s.name, i, k, digestOf(s.name)),
		})
	}
	return json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": fmt.Sprint("p", i), "namespace": namespace},
		"spec": map[string]any{"containers": containers},
	})
}
