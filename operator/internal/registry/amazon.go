package registry

import (
	"context"
	"fmt"
	"os"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/awslabs/amazon-ecr-credential-helper/ecr-login/api"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// amazonHosts are the private registries of Amazon ECR, by account and region. The public
// one is read without credentials.
var amazonHosts = regexp.MustCompile(`^[0-9]{12}\.dkr(?:\.ecr(?:-fips)?\.[a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2}\.amazonaws\.(?:com|com\.cn|eu)|` +
	`-ecr(?:-fips)?\.[a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2}\.on\.(?:aws|amazonwebservices\.com\.cn))$`)

// newAmazonKeychain asks the client of Amazon's credential helper, with the SDK's chain of
// credentials: environment, shared files, web identity, container and machine.
//
// Of the helper itself it takes neither the reading of the SDK's configuration, which
// panics where a file is wrong and has no deadline, nor the cache, which keeps tokens in a
// file in the home folder: that has no other switch than this variable.
func newAmazonKeychain(now clock) *cloudKeychain {
	// It fails only for names and values that cannot be in an environment.
	_ = os.Setenv("AWS_ECR_DISABLE_CACHE", "true")
	return newCloudKeychain("Amazon's", amazonHosts, now, askAmazon)
}

func askAmazon(ctx context.Context, host string) (authn.AuthConfig, error) {
	registry, err := api.ExtractRegistry(host)
	if err != nil {
		return authn.AuthConfig{}, fmt.Errorf("read the registry's name: %w", err)
	}
	options := []func(*config.LoadOptions) error{
		config.WithRegion(registry.Region),
		// The calls of the helper's client know no context: this ends them.
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(limits.CloudCredentials)),
		config.WithRetryMaxAttempts(1),
	}
	if registry.FIPS {
		options = append(options, config.WithUseFIPSEndpoint(aws.FIPSEndpointStateEnabled))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return authn.AuthConfig{}, fmt.Errorf("load the configuration of Amazon's SDK: %w", err)
	}
	auth, err := api.DefaultClientFactory{}.NewClientWithOptions(api.Options{Config: loaded}).GetCredentials(host)
	if err != nil {
		return authn.AuthConfig{}, fmt.Errorf("ask Amazon for a token: %w", err)
	}
	return authn.AuthConfig{Username: auth.Username, Password: auth.Password}, nil
}
