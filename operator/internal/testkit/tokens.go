package testkit

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// TokenOptions say who a TokenServer gives tokens to.
type TokenOptions struct {
	// User and Password that it asks for; without a user anybody gets a token.
	User, Password string
	// IdentityToken is a refresh token that it takes in their place.
	IdentityToken string
	// Lifetime of a token as the answer gives it; 0 leaves it out, which means a minute.
	Lifetime time.Duration
	// Realm that registries name in place of the server's own address.
	Realm string
	// Now is the clock for the tokens' end; nil means time.Now.
	Now func() time.Time
	// Answer takes the place of the server's own where a test needs it to fail.
	Answer http.Handler
	// TLS serves HTTPS with a certificate of its own.
	TLS bool
}

// TokenServer hands out bearer tokens for registries on loopback, as the one of Docker
// Hub does: by GET with a password, or by POST with a refresh token. It is safe for
// concurrent use.
type TokenServer struct {
	// Server that listens.
	Server *httptest.Server

	options TokenOptions
	mu      sync.Mutex
	// tokens by their text.
	tokens map[string]issued
	asked  []TokenRequest
}

type issued struct {
	scope string
	ends  time.Time
}

// TokenRequest is one request that a TokenServer saw.
type TokenRequest struct {
	Method, Service, Scope, Authorization string
}

// NewTokenServer starts a token server; Close stops it.
func NewTokenServer(options TokenOptions) *TokenServer {
	if options.Now == nil {
		options.Now = time.Now
	}
	t := &TokenServer{options: options, tokens: map[string]issued{}}
	t.Server = httptest.NewUnstartedServer(http.HandlerFunc(t.serve))
	t.Server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if options.TLS {
		t.Server.StartTLS()
	} else {
		t.Server.Start()
	}
	return t
}

// Close stops the server.
func (t *TokenServer) Close() { t.Server.Close() }

// realm is the URL that registries name.
func (t *TokenServer) realm() string {
	if t.options.Realm != "" {
		return t.options.Realm
	}
	return t.Server.URL + "/token"
}

// Requests are all that there were, in order.
func (t *TokenServer) Requests() []TokenRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]TokenRequest(nil), t.asked...)
}

// Revoke ends all tokens.
func (t *TokenServer) Revoke() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.tokens)
}

func (t *TokenServer) serve(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	seen := TokenRequest{r.Method, r.Form.Get("service"), r.Form.Get("scope"), r.Header.Get("Authorization")}
	t.mu.Lock()
	t.asked = append(t.asked, seen)
	t.mu.Unlock()
	if t.options.Answer != nil {
		t.options.Answer.ServeHTTP(w, r)
		return
	}
	if !t.knows(r) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	lifetime := t.options.Lifetime
	if lifetime == 0 {
		lifetime = time.Minute
	}
	token := rand.Text()
	t.mu.Lock()
	t.tokens[token] = issued{scope: seen.Scope, ends: t.options.Now().Add(lifetime)}
	t.mu.Unlock()
	answer := map[string]any{"token": token}
	if r.Method == http.MethodPost {
		answer = map[string]any{"access_token": token}
	}
	if t.options.Lifetime != 0 {
		answer["expires_in"] = int(t.options.Lifetime / time.Second)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (t *TokenServer) knows(r *http.Request) bool {
	if t.options.IdentityToken != "" && r.Method == http.MethodPost {
		return r.PostForm.Get("grant_type") == "refresh_token" && r.PostForm.Get("refresh_token") == t.options.IdentityToken
	}
	user, password, _ := r.BasicAuth()
	return t.options.User == "" || user == t.options.User && password == t.options.Password
}

// admits says whether a request to a registry brings a token for its repository, and
// answers it if it does not.
func (t *TokenServer) admits(w http.ResponseWriter, r *http.Request) bool {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	t.mu.Lock()
	known, ok := t.tokens[token]
	t.mu.Unlock()
	if ok && t.options.Now().Before(known.ends) {
		if wanted := scopeOf(r.URL.Path); wanted == "" || wanted == known.scope && reads(r) || known.scope == strings.TrimSuffix(wanted, "pull")+"push,pull" {
			return true
		}
	}
	challenge := `Bearer realm="` + t.realm() + `",service="registry"`
	if wanted := scopeOf(r.URL.Path); wanted != "" {
		challenge += `,scope="` + wanted + `"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.WriteHeader(http.StatusUnauthorized)
	return false
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// scopeOf is empty for the ping.
func scopeOf(path string) string {
	for _, kind := range []string{"/manifests/", "/blobs/", "/referrers/"} {
		if repository, _, ok := strings.Cut(strings.TrimPrefix(path, "/v2/"), kind); ok {
			return "repository:" + repository + ":pull"
		}
	}
	return ""
}
