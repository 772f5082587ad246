// Package testkit holds the real things that tests, the demo and the lab stand on: a
// registry in memory, images that have the same digest everywhere, keys and signatures
// made by cosign's own code, a Prometheus. Nothing here imports testing.
package testkit

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// RegistryOptions say what kind of registry it is.
type RegistryOptions struct {
	// Referrers turns the OCI 1.1 referrers API on; without it the registry answers 404
	// there and clients keep the fallback tag.
	Referrers bool
	// EmptyArtifactTypes makes the referrers API list the config's media type,
	// application/vnd.oci.empty.v1+json, in place of the manifest's artifactType.
	EmptyArtifactTypes bool
	// TLS serves HTTPS with a certificate of its own, see Registry.Server.
	TLS bool
	// Latency is how long each request waits before it is answered, as over a network; see
	// Registry.SetLatency.
	Latency time.Duration
}

// Registry is a registry in memory on loopback. It counts requests, and answers what it
// is told to where a test needs it to fail. It is safe for concurrent use.
type Registry struct {
	// Server that listens.
	Server *httptest.Server

	inner   http.Handler
	options RegistryOptions

	mu       sync.Mutex
	counts   map[string]int
	override []override
	tokens   *TokenServer
	// clock is the depth of the deepest request that is answered, deepest that of all.
	clock, deepest int
	putOff         []postponed
}

type override struct {
	matches func(*http.Request) bool
	answer  http.Handler
}

// NewRegistry starts a registry; Close stops it.
func NewRegistry(options RegistryOptions) *Registry {
	r := &Registry{
		options: options,
		counts:  map[string]int{},
		inner: ociregistry.New(
			ociregistry.WithReferrersSupport(options.Referrers),
			ociregistry.Logger(log.New(io.Discard, "", 0)),
		),
	}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	// Clients try HTTPS first; the failed handshake is no news.
	r.Server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if options.TLS {
		r.Server.StartTLS()
	} else {
		r.Server.Start()
	}
	return r
}

// Close stops the registry and drops what it held.
func (r *Registry) Close() { r.Server.Close() }

// Host is the registry's host:port.
func (r *Registry) Host() string {
	_, host, _ := strings.Cut(r.Server.URL, "://")
	return host
}

// Override answers the requests that match from now on, the newest override first. They
// are counted like others. A nil matcher matches all but the /v2/ ping.
func (r *Registry) Override(matches func(*http.Request) bool, answer http.Handler) {
	if matches == nil {
		matches = func(*http.Request) bool { return true }
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.override = append([]override{{matches, answer}}, r.override...)
}

// Restore takes all overrides away.
func (r *Registry) Restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.override = nil
}

// Status answers with a status and an empty body.
func Status(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

func putOff(status int, retryAfter string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
	})
}

// Hang answers nothing until the client gives up.
func Hang() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
}

// PathContains matches requests by a part of their path.
func PathContains(part string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.Contains(r.URL.Path, part) }
}

// Counts says how many requests there were, by method and kind: "GET manifests", "HEAD
// manifests", "GET blobs", "GET referrers", "PUT manifests" and so on. The ping of /v2/
// does not count.
func (r *Registry) Counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

// Requests is the sum of Counts.
func (r *Registry) Requests() int {
	sum := 0
	for _, n := range r.Counts() {
		sum += n
	}
	return sum
}

// Depth is the longest chain of requests, the ping of /v2/ included, of which each came
// in after the one before was answered: what a client with no better network than that
// has to wait for. Requests side by side count as one, as long as Latency makes them
// overlap.
func (r *Registry) Depth() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deepest
}

// ResetCounts starts counting anew.
func (r *Registry) ResetCounts() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.counts)
	r.clock, r.deepest = 0, 0
}

// SetLatency changes how long each request waits from now on.
func (r *Registry) SetLatency(latency time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.options.Latency = latency
}

// postponed are requests that are answered with a status and a time to wait.
type postponed struct {
	left       int
	status     int
	retryAfter string
}

// PutOff answers so many of the next requests with a status, such as 429, and the header
// Retry-After, left out where it is empty. Later calls follow after earlier ones.
func (r *Registry) PutOff(requests, status int, retryAfter string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.putOff = append(r.putOff, postponed{requests, status, retryAfter})
}

// RequireTokens lets only requests in from now on that bring a token of the server, for
// the repository that they are about.
func (r *Registry) RequireTokens(from *TokenServer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = from
}

// enter moves the logical clock on: a request is one deeper than all that were answered
// before it came in.
func (r *Registry) enter() (latency time.Duration, leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	depth := r.clock + 1
	r.deepest = max(r.deepest, depth)
	return r.options.Latency, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.clock = max(r.clock, depth)
	}
}

func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	latency, leave := r.enter()
	if latency > 0 {
		wait := time.NewTimer(latency)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-req.Context().Done():
		}
	}
	// Before the answer is written: what the client asks on the strength of it has to
	// find the clock moved on.
	leave()
	r.answer(w, req)
}

func (r *Registry) answer(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	tokens := r.tokens
	r.mu.Unlock()
	if tokens != nil && !tokens.admits(w, req) {
		return
	}
	if kind := requestKind(req.URL.Path); kind != "" {
		if answer := r.note(req, kind); answer != nil {
			answer.ServeHTTP(w, req)
			return
		}
		if kind == "referrers" && r.options.Referrers && !r.options.EmptyArtifactTypes {
			r.referrers(w, req)
			return
		}
	}
	r.inner.ServeHTTP(w, req)
}

func (r *Registry) note(req *http.Request, kind string) http.Handler {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[req.Method+" "+kind]++
	if len(r.putOff) > 0 {
		p := &r.putOff[0]
		status, retryAfter := p.status, p.retryAfter
		if p.left--; p.left == 0 {
			r.putOff = r.putOff[1:]
		}
		return putOff(status, retryAfter)
	}
	for _, o := range r.override {
		if o.matches(req) {
			return o.answer
		}
	}
	return nil
}

// requestKind is empty for the ping.
func requestKind(path string) string {
	for _, kind := range []string{"manifests", "blobs", "referrers", "tags"} {
		if strings.Contains(path, "/"+kind+"/") {
			return kind
		}
	}
	if strings.TrimSuffix(path, "/") == "/v2" {
		return ""
	}
	return "other"
}

// referrers answers as registries in the field do: the registry underneath lists the
// config's media type where the specification wants the manifest's artifactType.
func (r *Registry) referrers(w http.ResponseWriter, req *http.Request) {
	answer := httptest.NewRecorder()
	r.inner.ServeHTTP(answer, req)
	if answer.Code != http.StatusOK {
		w.WriteHeader(answer.Code)
		return
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(answer.Body.Bytes(), &index); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	base, _, _ := strings.Cut(req.URL.Path, "/referrers/")
	for i, entry := range index.Manifests {
		manifest := httptest.NewRecorder()
		r.inner.ServeHTTP(manifest, httptest.NewRequest(http.MethodGet, base+"/manifests/"+entry.Digest.String(), nil))
		var m v1.Manifest
		if json.Unmarshal(manifest.Body.Bytes(), &m) == nil && m.ArtifactType != "" {
			index.Manifests[i].ArtifactType = m.ArtifactType
		}
	}
	w.Header().Set("Content-Type", string(types.OCIImageIndex))
	if err := json.NewEncoder(w).Encode(index); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func parse(ref string) (name.Reference, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("reading reference %q: %w", ref, err)
	}
	return r, nil
}
