// Package registry reads digests and signatures from OCI registries: bounded in bytes,
// counts and time, and with "there is none" kept apart from "could not find out".
package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
)

// Options of a Client. The zero value reads public registries over HTTPS.
type Options struct {
	// Mirrors has a host:port to dial in place of a registry host, such as docker.io. The
	// registry's name stays in requests, certificates and verdicts.
	Mirrors map[string]string
	// Insecure lists hosts, with or without port, where plain HTTP is allowed. On
	// loopback it always is, mirrors on loopback included.
	Insecure []string
	// Keychain for calls that bring none of their own; nil means no credentials.
	Keychain authn.Keychain
	// Transport gives TLS settings and proxy; its dialer is not used. Nil means that of
	// net/http.
	Transport *http.Transport
	// Now is the clock for the cache; nil means time.Now.
	Now func() time.Time
}

// Client reads registries. It is safe for concurrent use.
type Client struct {
	hosts     hosts
	keychain  authn.Keychain
	transport http.RoundTripper
	deadline  time.Duration
	// secret keys the ids that stand for credentials, so that they mean nothing outside
	// this process.
	secret   []byte
	sessions *cache.LRUExpireCache
	found    *cache.LRUExpireCache
	flights  singleflight.Group
	requests *prometheus.CounterVec
}

type clock func() time.Time

func (c clock) Now() time.Time { return c() }

// New makes a client.
func New(options Options) *Client {
	now := clock(options.Now)
	if options.Now == nil {
		now = time.Now
	}
	h := newHosts(options.Mirrors, options.Insecure)
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails, see crypto/rand
	return &Client{
		hosts:     h,
		keychain:  options.Keychain,
		transport: newTransport(options.Transport, h),
		deadline:  limits.RegistryCall,
		secret:    secret,
		sessions:  cache.NewLRUExpireCacheWithClock(limits.RegistrySessions, now),
		found:     cache.NewLRUExpireCacheWithClock(limits.CachedImages, now),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_registry_requests_total",
			Help: "Requests to registries by operation (login, resolve, manifest, referrers, blob) and status code, or error or timeout.",
		}, []string{"operation", "code"}),
	}
}

// Collectors returns the client's metrics, for registration.
func (c *Client) Collectors() []prometheus.Collector { return []prometheus.Collector{c.requests} }

// Resolve returns the digest that ref stands for, "sha256:<hex>". A pinned reference is
// answered without a request; a tag is looked up on every call, as tags move. A nil
// keychain means that of Options. Errors are of type *Error; see Error.NotFound.
func (c *Client) Resolve(ctx context.Context, ref images.Reference, kc authn.Keychain) (string, error) {
	if ref.Pinned() {
		return ref.Digest, nil
	}
	repo, who, err := c.target(ctx, ref.Repository, kc)
	if err != nil {
		return "", err
	}
	tag := ref.TagToResolve()
	key := strings.Join([]string{"resolve", repo.Name(), tag, who.id}, "\x00")
	digest, err := share(ctx, &c.flights, key, func(ctx context.Context) (string, error) {
		s, err := c.session(ctx, repo, who)
		if err != nil {
			return "", err
		}
		digest, err := s.resolve(ctx, tag)
		c.settle(repo, who, err)
		return digest, err
	})
	return digest, typed(err, "look up tag "+tag, repo)
}

// Signatures returns all signatures that the registry holds for repository@digest, as
// cosign stores them: layers of the image tagged sha256-<hex>.sig, and sigstore bundles
// among the image's referrers. None of them is verified. That there are none is no error;
// anything that keeps one of the two places from being read is, of type *Error.
//
// What was found is kept for limits.CacheTTL, that there was nothing for
// limits.CacheNegativeTTL, and errors not at all. It is kept apart by the credentials that
// kc has for the repository, so that nobody is told from the cache what the registry
// would not tell them. The signatures are shared: callers must not change them.
func (c *Client) Signatures(ctx context.Context, repository, digest string, kc authn.Keychain) ([]gate.Signature, error) {
	if !images.ValidDigest(digest) {
		return nil, fmt.Errorf("reading signatures of %s: %q is not a digest", repository, digest)
	}
	repo, who, err := c.target(ctx, repository, kc)
	if err != nil {
		return nil, err
	}
	key := strings.Join([]string{"signatures", repo.Name(), digest, who.id}, "\x00")
	if kept, ok := c.found.Get(key); ok {
		return slices.Clone(kept.([]gate.Signature)), nil
	}
	found, err := share(ctx, &c.flights, key, func(ctx context.Context) ([]gate.Signature, error) {
		s, err := c.session(ctx, repo, who)
		if err != nil {
			return nil, err
		}
		found, err := s.signatures(ctx, digest)
		c.settle(repo, who, err)
		if err != nil {
			return nil, err
		}
		ttl := limits.CacheTTL
		if len(found) == 0 {
			ttl = limits.CacheNegativeTTL
		}
		c.found.Add(key, found, ttl)
		return found, nil
	})
	return slices.Clone(found), typed(err, "read signatures", repo)
}

func (c *Client) target(ctx context.Context, repository string, kc authn.Keychain) (name.Repository, access, error) {
	ref, err := images.Parse(repository)
	if err != nil {
		return name.Repository{}, access{}, fmt.Errorf("reading the repository's name: %w", err)
	}
	var options []name.Option
	if c.hosts.plainAllowed(ref.Host()) {
		options = append(options, name.Insecure)
	}
	repo, err := name.NewRepository(ref.Repository, options...)
	if err != nil {
		return name.Repository{}, access{}, fmt.Errorf("reading the repository's name: %w", err)
	}
	who, err := c.access(ctx, repo, kc)
	if err != nil {
		return name.Repository{}, access{}, &Error{Op: "log in to the registry", Host: hostOf(repo), Repository: fullName(repo), Err: &contentError{text: "the credentials cannot be read: " + err.Error()}}
	}
	return repo, who, nil
}

// typed makes an *Error of a caller's own end of time.
func typed(err error, op string, repo name.Repository) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &Error{Op: op, Host: hostOf(repo), Repository: fullName(repo), Err: err}
}

// share runs f once for all callers that ask for the same at the same time. It runs on
// its own time: a caller that gives up takes nothing from the others.
func share[T any](ctx context.Context, flights *singleflight.Group, key string, f func(context.Context) (T, error)) (T, error) {
	done := flights.DoChan(key, func() (any, error) {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.Gather)
		defer cancel()
		return f(own)
	})
	select {
	case r := <-done:
		value, _ := r.Val.(T)
		return value, r.Err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}
