package registry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/util/cache"
)

// access is one set of credentials for one repository.
type access struct {
	// config is nil for none.
	config *authn.AuthConfig
	// id tells credentials apart without holding them. It is empty for none.
	id string
}

// access finds the credentials that kc has for the repository, in the order in which they
// are to be tried; one without any where it has none. What is fetched with them is kept
// under the id, which is made of the credentials themselves and not of the keychain: two
// tenants share what was fetched only if they hold the same secret, or both hold none.
func (c *Client) access(ctx context.Context, repo name.Repository, kc authn.Keychain) ([]access, error) {
	if c.offline != nil {
		return []access{{}}, nil // no keychain starts a program or calls a cloud for nothing
	}
	if kc == nil {
		kc = c.keychain
	}
	var all []access
	for _, keys := range append([]authn.Keychain{kc}, c.clouds...) {
		if keys == nil || len(all) > 0 {
			continue
		}
		found, err := credentials(ctx, repo, keys)
		if err != nil {
			return nil, fmt.Errorf("finding credentials: %w", err)
		}
		for _, config := range found {
			who := access{config: config, id: c.idOf(config)}
			if !slices.ContainsFunc(all, func(a access) bool { return a.id == who.id }) {
				all = append(all, who)
			}
		}
	}
	if len(all) == 0 {
		return []access{{}}, nil
	}
	return all[:min(len(all), limits.RegistryCredentials)], nil
}

func (c *Client) idOf(config *authn.AuthConfig) string {
	mac := hmac.New(sha256.New, c.secret)
	fmt.Fprintf(mac, "%q %q %q %q %q", config.Username, config.Password, config.Auth, config.IdentityToken, config.RegistryToken)
	return hex.EncodeToString(mac.Sum(nil))
}

// several is a keychain that may have more than one set of credentials for a repository.
type several interface {
	all(target authn.Resource) []authn.Authenticator
}

// credentials is empty where the keychain has none.
func credentials(ctx context.Context, repo name.Repository, keys authn.Keychain) ([]*authn.AuthConfig, error) {
	var found []authn.Authenticator
	if many, ok := keys.(several); ok {
		found = many.all(repo)
	} else {
		one, err := authn.Resolve(ctx, keys, repo)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	var configs []*authn.AuthConfig
	for _, auth := range found {
		config, err := authn.Authorization(ctx, auth)
		if err != nil {
			return nil, err
		}
		if config != nil && *config != (authn.AuthConfig{}) {
			configs = append(configs, config)
		}
	}
	return configs, nil
}

// inTurn runs f with each set of credentials that there is for the repository until the
// registry refuses one no more, as the kubelet does. The one that it took the last time
// comes first. Where it refuses all, the first one's error is what is told.
func inTurn[T any](ctx context.Context, c *Client, repository string, kc authn.Keychain, f func(*session) (T, error)) (T, error) {
	var zero T
	repo, all, err := c.target(ctx, repository, kc)
	if err != nil {
		return zero, err
	}
	set := repo.Name()
	for _, who := range all {
		set += "\x00" + who.id
	}
	order := slices.Clone(all)
	if known, ok := c.taken.Get(set); ok {
		slices.SortStableFunc(order, func(a, b access) int { return cmp.Compare(rank(a.id == known), rank(b.id == known)) })
	}
	refusals := map[string]error{}
	for _, who := range order {
		value, err := f(c.session(repo, who))
		if !refused(err) || len(all) == 1 {
			if err == nil && len(all) > 1 {
				c.taken.Add(set, who.id, limits.RegistryMemory)
			}
			return value, err
		}
		refusals[who.id] = err
	}
	return zero, refusals[all[0].id]
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// refused says whether it is the credentials that the registry does not take.
func refused(err error) bool {
	var known *Error
	return errors.As(err, &known) && (known.Status == http.StatusUnauthorized || known.Status == http.StatusForbidden)
}

// session is all that requests to one repository with one set of credentials share.
type session struct {
	repo     name.Repository
	who      string
	plain    bool
	host     *host
	account  *account
	client   *http.Client
	deadline time.Duration
	now      func() time.Time
	timer    func(time.Duration) (<-chan time.Time, func())
	requests *prometheus.CounterVec
	wide     *turns
	parsing  *semaphore.Weighted
	// record is what answers are kept in, offline what they come from in place of the
	// registry; nil for neither.
	record  *Recording
	offline *replay
}

// session returns the session for a repository. No request is made for it: logging in is
// part of the first.
func (c *Client) session(repo name.Repository, who access) *session {
	key := repo.Name() + "\x00" + who.id
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.sessions.Get(key); ok {
		return s.(*session)
	}
	registry := repo.RegistryStr()
	s := &session{
		repo: repo, who: who.id, plain: c.policy.plainAllowed(registry),
		host:     kept(c.hosts, registry, newHost),
		account:  kept(c.accounts, registry+"\x00"+who.id, newAccount),
		deadline: c.deadline, now: c.now, timer: c.timer, requests: c.requests,
		wide: c.wide, parsing: c.parsing, record: c.record, offline: c.offline,
	}
	s.client = &http.Client{CheckRedirect: followToGuard, Transport: &login{
		hosts: c.policy, registry: registry, scope: repo.Scope(transport.PullScope), config: who.config,
		account: s.account, inner: c.transport, now: c.now, requests: c.requests, turn: make(chan struct{}, 1),
	}}
	c.sessions.Add(key, s, limits.CacheTTL)
	return s
}

func kept[T any](in *cache.LRUExpireCache, key string, make func() *T) *T {
	if known, ok := in.Get(key); ok {
		return known.(*T)
	}
	made := make()
	in.Add(key, made, limits.RegistryMemory)
	return made
}

// followToGuard leaves all that there is to say about redirects to the guard.
func followToGuard(*http.Request, []*http.Request) error { return nil }

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
	// described says that something else says how long the body is, and length how long. What
	// there is beyond is read and counted, and not held.
	described bool
	length    int64
	// absent lists the statuses that come back as an answer in place of an Error.
	absent []int
	// aside says that nothing depends on it: that it fails must not keep from the registry
	// what does.
	aside bool
}

// answer to a request; body is there for 200 only.
type answer struct {
	status int
	header http.Header
	body   []byte
	// digest and length of all that came, where body is cut off at what it was said to have;
	// empty where it is not.
	digest string
	length int64
}

// whole is digest and length of what came.
func (a *answer) whole() (digest string, length int64) {
	if a.digest != "" {
		return a.digest, a.length
	}
	return digests.Of(a.body), int64(len(a.body))
}

func (a *answer) found() bool { return a.status == http.StatusOK }

// do makes a request, or takes the answer from a recording.
func (s *session) do(ctx context.Context, r request) (*answer, error) {
	if s.offline != nil {
		return s.replayed(r)
	}
	a, err := s.ask(ctx, r)
	if s.record != nil {
		s.record.keep(s.asked(r), r, a, err)
	}
	return a, err
}

// ask makes a request, and makes it again where the registry asked for time.
func (s *session) ask(ctx context.Context, r request) (*answer, error) {
	for try := 0; ; try++ {
		a, err := s.once(ctx, r)
		status, header := statusOf(a, err)
		asked := s.putOff(status, header)
		switch {
		case asked != nil && try < limits.RegistryRetries:
			continue
		case asked != nil:
			return nil, s.failed(r.op, status, asked)
		case err != nil:
			return nil, s.failed(r.op, status, err)
		case a.found() || slices.Contains(r.absent, status):
			return a, nil
		}
		return nil, s.failed(r.op, status, nil)
	}
}

// once waits for its turn and makes the request.
func (s *session) once(ctx context.Context, r request) (*answer, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	call, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	a, err := s.send(call, r)
	status, header := statusOf(a, err)
	health, cause := healthOf(ctx, status, header, err)
	if r.aside && health == failed {
		health = unknown
	}
	leave(health, cause)
	var atLogin *loginError
	if !errors.As(err, &atLogin) {
		s.requests.WithLabelValues(r.operation, code(status, err)).Inc()
	}
	return a, err
}

// healthOf says what a request's end tells about the registry, and in words. 501 is a
// registry that knows what it cannot do, and 503 with a time one that knows when it can.
func healthOf(ctx context.Context, status int, header http.Header, err error) (outcome, string) {
	switch {
	case status == http.StatusServiceUnavailable && header.Get("Retry-After") != "":
		return alive, ""
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		return failed, fmt.Sprintf("the registry answered %d %s", status, http.StatusText(status))
	case err == nil || status != 0:
		return alive, ""
	case ctx.Err() != nil || ownError(err) != nil:
		return unknown, ""
	}
	return failed, plain(err)
}

// failed makes an *Error. What went wrong at the login is told as that.
func (s *session) failed(op string, status int, err error) error {
	e := &Error{Op: op, Host: hostOf(s.repo), Repository: fullName(s.repo), Status: status, Err: err}
	var atLogin *loginError
	if errors.As(err, &atLogin) {
		e.Op = opLogin
	}
	var wait *waitError
	if errors.As(err, &wait) {
		e.RetryAfter = wait.after
	}
	return e
}

// send makes the request over HTTPS, and in plain HTTP where that is allowed and nobody
// answers over HTTPS. What answered is remembered.
func (s *session) send(ctx context.Context, r request) (*answer, error) {
	if known := s.account.knownScheme(); known != "" {
		return s.over(ctx, known, r)
	}
	first, cancel := ctx, context.CancelFunc(func() {})
	if s.plain {
		first, cancel = context.WithTimeout(ctx, limits.RegistryProbe)
	}
	a, err := s.over(first, "https", r)
	cancel()
	switch {
	case answered(err):
		s.account.speaks("https")
		return a, err
	case !s.plain && errors.Is(err, http.ErrSchemeMismatch):
		return nil, notHTTPS()
	case !s.plain || ctx.Err() != nil || ownError(err) != nil || untrusted(err):
		// Who shows a certificate does not speak plain HTTP at the same port.
		return nil, err
	}
	b, plainErr := s.over(ctx, "http", r)
	if answered(plainErr) {
		s.account.speaks("http")
	} else if !errors.Is(err, http.ErrSchemeMismatch) {
		return nil, err
	}
	return b, plainErr
}

// answered says whether somebody answered a request, be it with a refusal to log in.
func answered(err error) bool {
	var atLogin *loginError
	return err == nil || errors.As(err, &atLogin) && atLogin.status != 0
}

func (s *session) over(ctx context.Context, scheme string, r request) (*answer, error) {
	u := url.URL{Scheme: scheme, Host: s.repo.RegistryStr(), Path: "/v2/" + s.repo.RepositoryStr() + "/" + r.path, RawQuery: r.query}
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
	defer discard(resp)
	a := &answer{status: resp.StatusCode, header: resp.Header}
	if !a.found() || r.method == http.MethodHead {
		return a, nil
	}
	if r.described && s.record == nil { // which has all to tell the same from
		if err := a.readDescribed(resp, r); err != nil {
			return nil, err
		}
		return a, nil
	}
	if a.body, err = readBounded(resp, r); err != nil {
		return nil, err
	}
	return a, nil
}

// readDescribed reads the body up to the request's limit, and holds no more of it than it was
// said to have: who counts what is held counts that.
func (a *answer) readDescribed(resp *http.Response, r request) error {
	if resp.ContentLength > r.limit {
		return r.tooLarge()
	}
	hash := sha256.New()
	from := io.TeeReader(io.LimitReader(resp.Body, r.limit+1), hash)
	var body bytes.Buffer
	// Made once in its size, whatever the registry says: to grow takes as much again.
	body.Grow(int(r.length) + bytes.MinRead)
	_, err := body.ReadFrom(io.LimitReader(from, r.length))
	var more int64
	if err == nil {
		more, err = io.Copy(io.Discard, from)
	}
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	a.body, a.length = body.Bytes(), int64(body.Len())+more
	if a.length > r.limit {
		return r.tooLarge()
	}
	a.digest = digests.Prefix + hex.EncodeToString(hash.Sum(nil))
	return nil
}

func (r request) tooLarge() error {
	return &limitError{name: r.limitName, text: fmt.Sprintf("it is larger than %d bytes", r.limit)}
}

// readBounded reads the body up to the request's limit.
func readBounded(resp *http.Response, r request) ([]byte, error) {
	if resp.ContentLength > r.limit {
		return nil, r.tooLarge()
	}
	var body bytes.Buffer
	if resp.ContentLength > 0 {
		// Made once in its size: a large attestation would be copied a dozen times.
		body.Grow(int(resp.ContentLength) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(io.LimitReader(resp.Body, r.limit+1)); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if int64(body.Len()) > r.limit {
		return nil, r.tooLarge()
	}
	return body.Bytes(), nil
}

// statusOf is the status that a request ended with, its login included, and 0 for none.
func statusOf(a *answer, err error) (int, http.Header) {
	var atLogin *loginError
	var wait *waitError
	switch {
	case a != nil:
		return a.status, a.header
	case errors.As(err, &atLogin):
		return atLogin.status, atLogin.header
	case errors.As(err, &wait):
		return wait.status, nil
	}
	return 0, nil
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
