package registry

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/google"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
)

// googleKeychain has Google's credentials of this machine (Application Default
// Credentials, workload identity) for Google's registries.
//
// go-containerregistry's own tries once in a process's life, so that a metadata server
// that is late by a second means no credentials until the restart; and it runs gcloud
// where it finds it.
type googleKeychain struct {
	mu     sync.Mutex
	auth   authn.Authenticator
	flight singleflight.Group
}

func newGoogleKeychain() *googleKeychain { return &googleKeychain{} }

func isGoogle(host string) bool {
	return host == "gcr.io" || strings.HasSuffix(host, ".gcr.io") || strings.HasSuffix(host, ".pkg.dev")
}

// Resolve implements authn.Keychain.
func (g *googleKeychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	return g.ResolveContext(context.Background(), target)
}

// ResolveContext implements authn.ContextKeychain. Hosts of others cost nothing and call
// nobody.
func (g *googleKeychain) ResolveContext(ctx context.Context, target authn.Resource) (authn.Authenticator, error) {
	if !isGoogle(target.RegistryStr()) {
		return authn.Anonymous, nil
	}
	g.mu.Lock()
	known := g.auth
	g.mu.Unlock()
	if known != nil {
		return known, nil
	}
	done := g.flight.DoChan("", func() (any, error) {
		// The source of tokens keeps its context for renewing them, which outlives a call.
		own := context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, &http.Client{Timeout: limits.RegistryCall})
		auth, err := google.NewEnvAuthenticator(own)
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.auth = auth
		return auth, nil
	})
	select {
	case r := <-done:
		if r.Err != nil {
			// Their text may quote what a server or a key file holds.
			return nil, fmt.Errorf("no credentials for Google's registries on this machine")
		}
		return r.Val.(authn.Authenticator), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
