package registry

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// access is one set of credentials for one repository.
type access struct {
	auth authn.Authenticator
	// id tells credentials apart without holding them. It is empty for none.
	id string
}

// access finds the credentials that kc has for the repository. What is fetched with them
// is kept under the id, which is made of the credentials themselves and not of the
// keychain: two tenants share what was fetched only if they hold the same secret, or
// both hold none.
func (c *Client) access(ctx context.Context, repo name.Repository, kc authn.Keychain) (access, error) {
	if kc == nil {
		kc = c.keychain
	}
	if kc == nil {
		return access{auth: authn.Anonymous}, nil
	}
	auth, err := authn.Resolve(ctx, kc, repo)
	if err != nil {
		return access{}, fmt.Errorf("finding credentials: %w", err)
	}
	config, err := authn.Authorization(ctx, auth)
	if err != nil {
		return access{}, fmt.Errorf("finding credentials: %w", err)
	}
	if config == nil || *config == (authn.AuthConfig{}) {
		return access{auth: authn.Anonymous}, nil
	}
	mac := hmac.New(sha256.New, c.secret)
	fmt.Fprintf(mac, "%q %q %q %q %q", config.Username, config.Password, config.Auth, config.IdentityToken, config.RegistryToken)
	return access{auth: authn.FromConfig(*config), id: hex.EncodeToString(mac.Sum(nil))}, nil
}

// session is a login to one repository.
type session struct {
	repo     name.Repository
	client   *http.Client
	deadline time.Duration
	requests *prometheus.CounterVec
}

// session returns the login for a repository, made anew where there is none. The
// registry's ping and the fetching of a token happen here and only here.
func (c *Client) session(ctx context.Context, repo name.Repository, who access) (*session, error) {
	key := sessionKey(repo, who)
	if s, ok := c.sessions.Get(key); ok {
		return s.(*session), nil
	}
	return share(ctx, &c.flights, key, func(ctx context.Context) (*session, error) {
		ctx, cancel := context.WithTimeout(ctx, c.deadline)
		defer cancel()
		rt, err := transport.NewWithContext(ctx, repo.Registry, who.auth, c.transport, []string{repo.Scope(transport.PullScope)})
		c.requests.WithLabelValues("login", code(statusOf(err), err)).Inc()
		if err != nil {
			return nil, &Error{Op: "log in to the registry", Host: hostOf(repo), Repository: fullName(repo), Status: statusOf(err), Err: err}
		}
		s := &session{repo: repo, client: &http.Client{Transport: rt, CheckRedirect: followToGuard}, deadline: c.deadline, requests: c.requests}
		c.sessions.Add(key, s, limits.CacheTTL)
		return s, nil
	})
}

// followToGuard leaves all that there is to say about redirects to the guard.
func followToGuard(*http.Request, []*http.Request) error { return nil }

// settle drops the login after an error that a new one might mend.
func (c *Client) settle(repo name.Repository, who access, err error) {
	var known *Error
	if err == nil || ownError(err) != nil || (errors.As(err, &known) && known.NotFound()) {
		return
	}
	c.sessions.Remove(sessionKey(repo, who))
}

func sessionKey(repo name.Repository, who access) string {
	return "session\x00" + repo.Name() + "\x00" + who.id
}

// request is one request inside a repository.
type request struct {
	// op is what it is for, in an Error's words.
	op string
	// operation is its label in metrics.
	operation string
	method    string
	// path below /v2/<repository>/.
	path   string
	query  string
	accept string
	// limit in bytes on the answer's body, and the limit's name.
	limit     int64
	limitName string
	// absent lists the statuses that come back as an answer in place of an Error.
	absent []int
}

// answer to a request; body is there for 200 only.
type answer struct {
	status int
	header http.Header
	body   []byte
	url    *url.URL
}

func (a *answer) found() bool { return a.status == http.StatusOK }

func (s *session) do(ctx context.Context, r request) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	a, err := s.send(ctx, r)
	status := statusOf(err)
	if err == nil {
		status = a.status
	}
	s.requests.WithLabelValues(r.operation, code(status, err)).Inc()
	switch {
	case err != nil:
		return nil, s.failed(r.op, status, err)
	case a.found():
		return a, nil
	}
	for _, absent := range r.absent {
		if a.status == absent {
			return a, nil
		}
	}
	return nil, s.failed(r.op, a.status, nil)
}

func (s *session) failed(op string, status int, err error) error {
	return &Error{Op: op, Host: hostOf(s.repo), Repository: fullName(s.repo), Status: status, Err: err}
}

func (s *session) send(ctx context.Context, r request) (*answer, error) {
	u := url.URL{Scheme: s.repo.Scheme(), Host: s.repo.RegistryStr(), Path: "/v2/" + s.repo.RepositoryStr() + "/" + r.path, RawQuery: r.query}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, header: resp.Header, url: resp.Request.URL}
	if !a.found() || r.method == http.MethodHead {
		return a, nil
	}
	a.body, err = readBounded(resp, r)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// readBounded reads the body up to the request's limit.
func readBounded(resp *http.Response, r request) ([]byte, error) {
	tooLarge := &limitError{name: r.limitName, text: fmt.Sprintf("it is larger than %d bytes", r.limit)}
	if resp.ContentLength > r.limit {
		return nil, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, r.limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if int64(len(body)) > r.limit {
		return nil, tooLarge
	}
	return body, nil
}

// code is a request's label in metrics: the status, or why there was none.
func code(status int, err error) string {
	switch {
	case status != 0:
		return strconv.Itoa(status)
	case err == nil:
		return strconv.Itoa(http.StatusOK)
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "error"
}

func hostOf(repo name.Repository) string {
	if repo.RegistryStr() == name.DefaultRegistry {
		return "docker.io"
	}
	return repo.RegistryStr()
}

func fullName(repo name.Repository) string { return hostOf(repo) + "/" + repo.RepositoryStr() }
