package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// login adds what the registry asks for to the requests of one session: nothing, a
// password, or a token that is fetched where the registry says.
//
// go-containerregistry's own asks /v2/ ahead of all else. Without credentials that is a
// round trip for nothing: the first request itself is answered with what to log in to, as
// containerd does it. With credentials /v2/ is still asked first, once for a registry, as
// some answer that an image is not there to who has not logged in.
type login struct {
	hosts    hosts
	registry string
	scope    string
	config   *authn.AuthConfig
	account  *account
	inner    http.RoundTripper
	now      func() time.Time
	requests *prometheus.CounterVec

	// turn is held while logging in: many requests that find the token gone get one.
	turn    chan struct{}
	mu      sync.Mutex
	header  string
	expires time.Time
}

// loginError is a login that failed with an answer of the registry or the token server.
type loginError struct {
	status int
	header http.Header
	err    error
}

func (e *loginError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return fmt.Sprintf("the login was answered with %d", e.status)
}

func (e *loginError) Unwrap() error { return e.err }

func loginFailed(err error) error {
	var known *loginError
	if errors.As(err, &known) {
		return known
	}
	return &loginError{err: err}
}

// RoundTrip implements http.RoundTripper. Only the registry itself is sent credentials:
// not who it redirects to, whatever that one answers.
func (l *login) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != l.registry {
		return l.inner.RoundTrip(req)
	}
	sent, err := l.ahead(req.Context(), req.URL.Scheme)
	if err != nil {
		return nil, loginFailed(err)
	}
	resp, err := l.inner.RoundTrip(authorized(req, sent))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	wanted := pick(challenges(resp.Header))
	if wanted == nil {
		return resp, nil
	}
	next, err := l.renew(req.Context(), req.URL.Scheme, sent, wanted)
	if err != nil {
		discard(resp)
		return nil, loginFailed(err)
	}
	if next == "" || next == sent {
		return resp, nil
	}
	discard(resp)
	return l.inner.RoundTrip(authorized(req, next))
}

func authorized(req *http.Request, header string) *http.Request {
	out := req.Clone(req.Context())
	out.Header.Set("User-Agent", "sluice")
	if header != "" {
		out.Header.Set("Authorization", header)
	}
	return out
}

// discard reads a short rest, so that the connection can be used again: a new one costs
// two round trips with TLS.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, limits.RegistryErrorBytes)
	_ = resp.Body.Close()
}

// ahead returns what to send with a request, as far as it is known what the registry
// wants.
func (l *login) ahead(ctx context.Context, scheme string) (string, error) {
	header, fresh := l.current()
	if fresh {
		return header, nil
	}
	wanted := l.account.knownLogin()
	if wanted == nil && l.config == nil {
		return "", nil
	}
	if wanted == nil {
		var err error
		if wanted, err = l.ping(ctx, scheme); err != nil {
			return "", err
		}
	}
	if wanted.scheme == "" || wanted.scheme == "basic" && l.config == nil {
		return "", nil
	}
	return l.renew(ctx, scheme, header, wanted)
}

func (l *login) current() (header string, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.header, l.header != "" && l.now().Before(l.expires)
}

// ping asks what the registry wants. An answer that asks for nothing is kept too.
func (l *login) ping(ctx context.Context, scheme string) (*challenge, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+l.registry+"/v2/", nil)
	if err != nil {
		return nil, fmt.Errorf("asking the registry how to log in: %w", err)
	}
	resp, err := l.send(authorized(req, ""))
	if err != nil {
		return nil, err
	}
	defer discard(resp)
	wanted := &challenge{}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		if found := pick(challenges(resp.Header)); found != nil {
			wanted = found
		}
	default:
		return nil, &loginError{status: resp.StatusCode, header: resp.Header}
	}
	l.account.asks(wanted)
	return wanted, nil
}

// send makes a request of the login itself. It follows no redirect: none of them says
// who may be asked on its behalf.
func (l *login) send(req *http.Request) (*http.Response, error) {
	client := http.Client{Transport: l.inner, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	status := 0
	if err == nil {
		status = resp.StatusCode
	}
	l.requests.WithLabelValues("login", code(status, err)).Inc()
	return resp, err
}

// renew logs in, unless another request did since sent was current. It returns "" where
// there is nothing to send.
func (l *login) renew(ctx context.Context, scheme, sent string, wanted *challenge) (string, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if header, fresh := l.current(); fresh && header != sent {
		return header, nil
	}
	l.account.asks(wanted)
	header, lifetime := "", limits.RegistryMemory
	switch wanted.scheme {
	case "basic":
		header = basic(l.config)
	case "bearer":
		token, lasts, err := l.token(ctx, scheme, wanted)
		if err != nil {
			return "", err
		}
		header, lifetime = "Bearer "+token, lasts
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.header, l.expires = header, l.now().Add(lifetime)
	return header, nil
}

func basic(config *authn.AuthConfig) string {
	switch {
	case config == nil:
		return ""
	case config.Username != "" && config.Password != "":
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(config.Username+":"+config.Password))
	case config.Auth != "":
		return "Basic " + config.Auth
	}
	return ""
}

// token fetches a token for reading this one repository.
func (l *login) token(ctx context.Context, scheme string, wanted *challenge) (string, time.Duration, error) {
	if l.config != nil && l.config.RegistryToken != "" {
		return l.config.RegistryToken, limits.RegistryMemory, nil
	}
	realm, err := url.Parse(wanted.parameters["realm"])
	if err != nil {
		return "", 0, &contentError{text: "the registry's demand for a token names no server"}
	}
	if err := l.hosts.checkRealm(realm, l.registry, scheme, l.config != nil); err != nil {
		return "", 0, err
	}
	req, err := l.tokenRequest(ctx, realm, wanted.parameters["service"])
	if err != nil {
		return "", 0, fmt.Errorf("asking for a token: %w", err)
	}
	resp, err := l.send(req)
	if err != nil {
		return "", 0, err
	}
	defer discard(resp)
	if resp.StatusCode != http.StatusOK {
		return "", 0, &loginError{status: resp.StatusCode, header: resp.Header}
	}
	body, err := readBounded(resp, request{limit: limits.RegistryTokenBytes, limitName: "limits.RegistryTokenBytes"})
	if err != nil {
		return "", 0, err
	}
	return readToken(body)
}

// tokenRequest is GET with a password or nothing, and POST with a refresh token.
func (l *login) tokenRequest(ctx context.Context, realm *url.URL, service string) (*http.Request, error) {
	if l.config != nil && l.config.IdentityToken != "" {
		form := url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {l.config.IdentityToken},
			"client_id": {"sluice"}, "service": {service}, "scope": {l.scope},
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(form.Encode()))
		if err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return req, err
	}
	query := realm.Query()
	query.Set("scope", l.scope)
	if service != "" {
		query.Set("service", service)
	}
	asked := *realm
	asked.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, asked.String(), nil)
	if err != nil {
		return nil, err
	}
	return authorized(req, basic(l.config)), nil
}

// The specification's lifetime of a token where the answer names none.
const defaultTokenSeconds = 60

// readToken reads the answer of a token server. A token is given up when nine tenths of
// its time are over: one that ends on the way costs two requests.
func readToken(body []byte) (string, time.Duration, error) {
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return "", 0, &contentError{text: "the token server's answer is not JSON"}
	}
	token := answer.Token
	if token == "" {
		token = answer.AccessToken
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", 0, &contentError{text: "the token server's answer holds no token"}
	}
	seconds := answer.ExpiresIn
	if seconds <= 0 {
		seconds = defaultTokenSeconds
	}
	lifetime := time.Duration(min(seconds, int64(limits.RegistryMemory/time.Second))) * time.Second
	return token, lifetime * 9 / 10, nil
}
