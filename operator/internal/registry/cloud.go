package registry

import (
	"context"
	"fmt"
	"regexp"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
)

// cloudKeychain has the credentials of this machine, or of its workload identity, for the
// registries of one cloud. Other hosts cost nothing and call nobody.
//
// The credential helpers of the clouds take no context, and some panic where their
// configuration is bad: each is asked apart from its caller, which waits no longer than
// limits.CloudCredentials, and a panic there is an error here.
type cloudKeychain struct {
	// cloud in messages, such as "Amazon's".
	cloud string
	// hosts matches the whole name of a registry, port included, and no name that only
	// begins or ends like one: what is asked for is sent to that host.
	hosts  *regexp.Regexp
	ask    func(ctx context.Context, host string) (authn.AuthConfig, error)
	known  *cache.LRUExpireCache
	flight singleflight.Group
}

func newCloudKeychain(cloud string, hosts *regexp.Regexp, now clock, ask func(context.Context, string) (authn.AuthConfig, error)) *cloudKeychain {
	return &cloudKeychain{cloud: cloud, hosts: hosts, ask: ask, known: cache.NewLRUExpireCacheWithClock(limits.RegistryHosts, now)}
}

// clouds are the keychains that options ask for. One that is not asked for is not made,
// and calls nobody.
func clouds(options Options, now clock) []authn.Keychain {
	var out []authn.Keychain
	if options.Google {
		out = append(out, newGoogleKeychain())
	}
	if options.Amazon {
		out = append(out, newAmazonKeychain(now))
	}
	if options.Azure {
		out = append(out, newAzureKeychain(now))
	}
	return out
}

// Resolve implements authn.Keychain.
func (k *cloudKeychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), target)
}

// ResolveContext implements authn.ContextKeychain. A helper that finds nothing is an
// error: it was enabled for these hosts, and to go on without credentials would end as an
// image that is said not to exist.
func (k *cloudKeychain) ResolveContext(ctx context.Context, target authn.Resource) (authn.Authenticator, error) {
	host := target.RegistryStr()
	if !k.hosts.MatchString(host) {
		return authn.Anonymous, nil
	}
	if known, ok := k.known.Get(host); ok {
		return authn.FromConfig(known.(authn.AuthConfig)), nil
	}
	done := k.flight.DoChan(host, func() (any, error) {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.CloudCredentials)
		defer cancel()
		config, err := k.guarded(own, host)
		if err == nil {
			k.known.Add(host, config, limits.CloudCredentialsTTL)
		}
		return config, err
	})
	// A name of its own: the flight above reads ctx at the same time.
	waiting, cancel := context.WithTimeout(ctx, limits.CloudCredentials)
	defer cancel()
	select {
	case r := <-done:
		if r.Err != nil {
			// Their text may quote what a server, a file or the environment holds.
			return nil, fmt.Errorf("no credentials for %s registries on this machine", k.cloud)
		}
		return authn.FromConfig(r.Val.(authn.AuthConfig)), nil
	case <-waiting.Done():
		return nil, fmt.Errorf("no credentials for %s registries within %s (limits.CloudCredentials): %w", k.cloud, limits.CloudCredentials, waiting.Err())
	}
}

// guarded makes an error of a panic, and of credentials that are none.
func (k *cloudKeychain) guarded(ctx context.Context, host string) (config authn.AuthConfig, err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("the credential helper for %s registries panicked", k.cloud)
		}
	}()
	config, err = k.ask(ctx, host)
	if err == nil && config == (authn.AuthConfig{}) {
		err = fmt.Errorf("the credential helper for %s registries gave none", k.cloud)
	}
	return config, err
}
