// Package trust reads what signatures are verified against when it is not in the cluster:
// public keys from key management services, trusted roots from files, and the root of
// the public Sigstore. What nobody asks for is not fetched: a set-up that names its own
// keys and roots makes no call here.
package trust

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/sigstore/sigstore-go/pkg/tuf"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms"
	"github.com/theupdateframework/go-tuf/v2/metadata"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Options of a Loader. The zero value reads the public Sigstore's repository.
type Options struct {
	// Repository is the base URL of a TUF repository, and Anchor its root.json; empty: the
	// public Sigstore's, with the anchor that sigstore-go ships.
	Repository string
	Anchor     []byte
	// Now is the clock of the cache; nil means time.Now.
	Now func() time.Time
}

// Loader reads and keeps keys and roots. It is safe for concurrent use.
type Loader struct {
	options Options
	kept    *cache.LRUExpireCache
	flights singleflight.Group
}

type clock func() time.Time

func (c clock) Now() time.Time { return c() }

// New makes a Loader.
func New(o Options) *Loader {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Repository == "" {
		o.Repository, o.Anchor = tuf.DefaultMirror, tuf.DefaultRoot()
	}
	return &Loader{options: o, kept: cache.NewLRUExpireCacheWithClock(limits.TrustEntries, clock(o.Now))}
}

// KMS returns the public half of a key in a key management service, in PEM (PKIX). It is
// kept for limits.KeyTTL; errors are not.
func (l *Loader) KMS(ctx context.Context, uri string) (string, error) {
	if err := provided(uri); err != nil {
		return "", err
	}
	return l.load(ctx, "kms "+uri, limits.KeyTTL, func() (string, error) {
		key, err := kms.Get(context.Background(), uri, crypto.SHA256)
		if err != nil {
			return "", err
		}
		return publicPEM(key)
	})
}

func publicPEM(key signature.PublicKeyProvider) (string, error) {
	public, err := key.PublicKey()
	if err != nil {
		return "", err
	}
	pem, err := cryptoutils.MarshalPublicKeyToPEM(public)
	return string(pem), err
}

// PublicRoot returns the trusted root of the public Sigstore, or of Options.Repository,
// as verified by The Update Framework. It is kept for limits.RootTTL.
func (l *Loader) PublicRoot(ctx context.Context) (string, error) {
	return l.target(ctx, "trusted_root.json")
}

// PublicServices returns the signing configuration that lies beside PublicRoot: where the
// services are that sign. It is kept and verified alike.
func (l *Loader) PublicServices(ctx context.Context) (string, error) {
	return l.target(ctx, "signing_config.v0.2.json")
}

func (l *Loader) target(ctx context.Context, name string) (string, error) {
	return l.load(ctx, "tuf "+name, limits.RootTTL, func() (string, error) {
		client, err := tuf.New(&tuf.Options{
			Root: l.options.Anchor, RepositoryBaseURL: l.options.Repository, DisableLocalCache: true,
			Fetcher: fetcher{&http.Client{Timeout: limits.TrustCall}},
		})
		if err != nil {
			return "", err
		}
		raw, err := client.GetTarget(name)
		if err != nil {
			return "", err
		}
		return string(raw), nil
	})
}

// File reads a trusted root, or a signing configuration, from a file, unchecked. It is read every time: a mounted file changes
// without notice.
func (l *Loader) File(path string) (string, error) {
	// Opening a pipe that nobody writes to would hang.
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limits.TrustedRootBytes+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if len(raw) > limits.TrustedRootBytes {
		return "", fmt.Errorf("%s is larger than %d bytes (limits.TrustedRootBytes)", path, limits.TrustedRootBytes)
	}
	return string(raw), nil
}

// load answers from what is kept, or fetches. The libraries that fetch do not heed a
// context: a fetch that outlives the deadline is left to end by itself, and meanwhile no
// second one for the same thing is started.
func (l *Loader) load(ctx context.Context, key string, ttl time.Duration, fetch func() (string, error)) (string, error) {
	if v, ok := l.kept.Get(key); ok {
		return v.(string), nil
	}
	ctx, cancel := context.WithTimeout(ctx, limits.TrustCall)
	defer cancel()
	select {
	case r := <-l.flights.DoChan(key, func() (any, error) {
		v, err := fetch()
		if err == nil {
			l.kept.Add(key, v, ttl)
		}
		return v, err
	}):
		if r.Err != nil {
			return "", r.Err
		}
		return r.Val.(string), nil
	case <-ctx.Done():
		return "", fmt.Errorf("no answer within %s (limits.TrustCall)", limits.TrustCall)
	}
}

// fetcher downloads TUF metadata with a deadline.
type fetcher struct{ client *http.Client }

// DownloadFile implements the TUF client's fetcher.
func (f fetcher) DownloadFile(url string, maxLength int64, _ time.Duration) ([]byte, error) {
	response, err := f.client.Get(url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, &metadata.ErrDownloadHTTP{StatusCode: response.StatusCode, URL: url}
	}
	var body bytes.Buffer
	n, err := io.Copy(&body, io.LimitReader(response.Body, maxLength+1))
	if err != nil {
		return nil, err
	}
	if n > maxLength {
		return nil, &metadata.ErrDownloadLengthMismatch{Msg: fmt.Sprintf("%s is longer than %d bytes", url, maxLength)}
	}
	return body.Bytes(), nil
}
