package registry

import (
	"context"
	"fmt"
	"regexp"

	"github.com/chrismellard/docker-credential-acr-env/pkg/credhelper"
	"github.com/google/go-containerregistry/pkg/authn"
)

// azureHosts are the registries of Azure in its public, Chinese and US government clouds.
// The helper's own pattern is not anchored, and it sends a token for Azure's resource
// manager to whatever passes.
var azureHosts = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*\.azurecr\.(?:io|cn|us)$`)

// newAzureKeychain asks the credential helper for Azure: a client secret or a workload
// identity that the environment names, or else the machine's identity.
func newAzureKeychain(now clock) *cloudKeychain {
	return newCloudKeychain("Azure's", azureHosts, now, askAzure)
}

// askAzure takes no context further: the helper gives up by itself after half a minute.
func askAzure(_ context.Context, host string) (authn.AuthConfig, error) {
	user, token, err := credhelper.NewACRCredentialsHelper().Get(host)
	if err != nil {
		return authn.AuthConfig{}, fmt.Errorf("ask Azure for a token: %w", err)
	}
	return authn.AuthConfig{Username: user, IdentityToken: token}, nil
}
