// Package registry reads digests and signatures from OCI registries: bounded in bytes,
// counts and time, and with "there is none" kept apart from "could not find out".
package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"golang.org/x/sync/semaphore"
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
	// TokenHosts lists hosts, with or without port, of token servers that may be given
	// credentials although they are at another site than the registry that names them.
	TokenHosts []string
	// Addresses may be dialled although they are link-local or of a metadata service: a
	// registry is there. Redirects may lead there too.
	Addresses []netip.Prefix
	// Keychain for calls that bring none of their own; nil means no credentials.
	Keychain authn.Keychain
	// Google takes the credentials of the machine or the workload identity for gcr.io and
	// pkg.dev, where the keychain has none. Other hosts are not told to Google.
	Google bool
	// Amazon does the same for private registries of Amazon ECR, and Azure for
	// azurecr.io, azurecr.cn and azurecr.us.
	Amazon, Azure bool
	// Transport gives TLS settings, such as a private CA, and proxy; its dialer is not
	// used. Nil means that of net/http.
	Transport *http.Transport
	// Now is the clock for what is kept; nil means time.Now.
	Now func() time.Time
	// Record keeps what registries answer; nil for nothing. See Client.Complete.
	Record *Recording
	// Offline is asked in place of every registry, while it is not older than MaxAge. No
	// connection is made then, and no credentials are looked for.
	Offline *Recording
	MaxAge  time.Duration
}

// Client reads registries. It is safe for concurrent use.
type Client struct {
	policy    hosts
	keychain  authn.Keychain
	clouds    []authn.Keychain
	transport http.RoundTripper
	deadline  time.Duration
	now       clock
	timer     func(time.Duration) (<-chan time.Time, func())
	// secret keys the ids that stand for credentials, so that they mean nothing outside
	// this process.
	secret []byte
	// found has what was read; large has attestations of more than SignatureBlobBytes.
	found, large *memory
	// turns are held by decisions over some evidence, and over much, see InTurn.
	turns []*turns
	// wide is held while a large manifest is read, see wide.
	wide *turns
	// looks are held while an image is looked at, and reads while an answer is read, see flight.
	looks, reads *turns
	// parsing is held while a document is taken apart, see apart.
	parsing *semaphore.Weighted
	// mu makes one of each of what follows.
	mu       sync.Mutex
	sessions *cache.LRUExpireCache
	hosts    *cache.LRUExpireCache
	accounts *cache.LRUExpireCache
	// taken has which of several sets of credentials for a repository the registry took.
	taken    *cache.LRUExpireCache
	flights  map[string]*flight
	requests *prometheus.CounterVec
	lookups  *prometheus.CounterVec
	record   *Recording
	offline  *replay
}

type clock func() time.Time

func (c clock) Now() time.Time { return c() }

// New makes a client.
func New(options Options) *Client {
	now := clock(options.Now)
	if options.Now == nil {
		now = time.Now
	}
	h := newHosts(options)
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails, see crypto/rand
	c := &Client{
		policy:    h,
		keychain:  options.Keychain,
		transport: newTransport(options.Transport, h),
		deadline:  limits.RegistryCall,
		now:       now,
		timer:     timer,
		secret:    secret,
		found:     newMemory(limits.CacheBytes, limits.CacheBytes/8, now),
		large:     newMemory(limits.CacheLargeBytes, limits.CacheLargeBytes/2, now),
		turns: []*turns{
			newTurns(limits.EvidenceDecisions, limits.SmallEvidence, "limits.EvidenceDecisions"),
			newTurns(limits.LargeDecisions, limits.LargeEvidence, "limits.LargeDecisions"),
		},
		wide:     newTurns(limits.LargeDocuments, limits.DocumentBytes, "limits.LargeDocuments"),
		looks:    newTurns(limits.Looks, 0, "limits.Looks"),
		reads:    newTurns(limits.Reads, 0, "limits.Reads"),
		parsing:  semaphore.NewWeighted(limits.DocumentsParsed),
		flights:  map[string]*flight{},
		sessions: cache.NewLRUExpireCacheWithClock(limits.RegistrySessions, now),
		hosts:    cache.NewLRUExpireCacheWithClock(limits.RegistryHosts, now),
		accounts: cache.NewLRUExpireCacheWithClock(limits.RegistryHosts, now),
		taken:    cache.NewLRUExpireCacheWithClock(limits.RegistrySessions, now),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_registry_requests_total",
			Help: "Requests to registries by operation (login, resolve, manifest, referrers, blob) and status code, or error or timeout.",
		}, []string{"operation", "code"}),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_registry_cache_total",
			Help: "Looks at the evidence of an image: hit where memory had what was needed, miss where the registry was asked.",
		}, []string{"result"}),
	}
	c.record = options.Record
	if options.Offline != nil {
		c.offline, c.transport = &replay{options.Offline, options.MaxAge}, unplugged{}
		return c
	}
	c.clouds = clouds(options, now)
	return c
}

func timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Collectors returns the client's metrics, for registration.
func (c *Client) Collectors() []prometheus.Collector {
	return []prometheus.Collector{c.requests, c.lookups}
}

// Resolve returns the digest that ref stands for, "sha256:<hex>". A pinned reference is
// answered without a request; a tag is looked up on every call, as tags move. A nil
// keychain means that of Options. Errors are of type *Error; see Error.NotFound.
func (c *Client) Resolve(ctx context.Context, ref images.Reference, kc authn.Keychain) (string, error) {
	if ref.Pinned() {
		return ref.Digest, nil
	}
	tag := ref.TagToResolve()
	return inTurn(ctx, c, ref.Repository, kc, func(s *session) (string, error) {
		digest, err := share(ctx, c, s, "resolve\x00"+tag, func(ctx context.Context) (string, error) {
			return s.resolve(ctx, tag, false)
		})
		if err == nil && c.offline != nil {
			c.offline.stoodFor(fullName(s.repo) + ":" + tag)
		}
		return digest, s.typed("look up tag "+tag, err)
	})
}

// Tagged returns the digest that the tag of a reference stands for, also where a digest
// stands beside it; "" where the registry has no such tag. It is for telling and not for
// pulling, so that it is kept for limits.CacheTTL, and a registry where it fails does not
// count as down for that. While it fails what was known last is told for limits.TagTTL, unless
// it was refused since: there is an error where nothing was known.
func (c *Client) Tagged(ctx context.Context, ref images.Reference, kc authn.Keychain) (string, error) {
	if ref.Tag == "" {
		return "", nil
	}
	what := "tagged\x00" + ref.Tag
	return inTurn(ctx, c, ref.Repository, kc, func(s *session) (string, error) {
		if kept, ok := c.found.get(s.key(what), limits.CacheTTL); ok {
			return kept.(string), nil
		}
		digest, err := share(ctx, c, s, what, func(ctx context.Context) (string, error) {
			digest, err := s.resolve(ctx, ref.Tag, true)
			if known := new(Error); errors.As(err, &known) && known.notFound() {
				digest, err = "", nil
			}
			switch {
			case err == nil:
				c.found.put(s.key(what), digest, len(digest))
			case refused(err): // and what it let us see before is not told again
				c.found.drop(s.key(what))
			}
			return digest, err
		})
		if err = s.typed("look up tag "+ref.Tag, err); err != nil && !refused(err) {
			if kept, ok := c.found.get(s.key(what), limits.TagTTL); ok {
				return kept.(string), nil
			}
		}
		return digest, err
	})
}

func (c *Client) target(ctx context.Context, repository string, kc authn.Keychain) (name.Repository, []access, error) {
	ref, err := images.Parse(repository)
	if err != nil {
		return name.Repository{}, nil, fmt.Errorf("reading the repository's name: %w", err)
	}
	repo, err := name.NewRepository(ref.Repository)
	if err != nil {
		return name.Repository{}, nil, fmt.Errorf("reading the repository's name: %w", err)
	}
	all, err := c.access(ctx, repo, kc)
	if err != nil {
		return repo, nil, &Error{Op: opLogin, Host: hostOf(repo), Repository: fullName(repo), Err: &contentError{text: "the credentials cannot be read: " + err.Error()}}
	}
	return repo, all, nil
}

// typed makes an *Error of a caller's own end of time.
func (s *session) typed(op string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return s.failed(op, 0, err)
}

// key tells what is asked apart by repository and credentials, so that nobody is told
// what the registry would not tell them.
func (s *session) key(what string) string {
	return what + "\x00" + s.repo.Name() + "\x00" + s.who
}
