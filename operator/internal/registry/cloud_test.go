package registry

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

func TestClouds_KnowTheirHostsToTheLetter(t *testing.T) {
	const amazon, azure = "Amazon", "Azure"
	for host, want := range map[string]string{
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com":              amazon,
		"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn":          amazon,
		"123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com":     amazon,
		"123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu":          amazon,
		"123456789012.dkr-ecr.eu-west-1.on.aws":                     amazon,
		"shop.azurecr.io":                                           azure,
		"shop-a1b2c3.azurecr.io":                                    azure,
		"shop.azurecr.cn":                                           azure,
		"shop.azurecr.us":                                           azure,
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com.evil.example": "",
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com:5000":         "",
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com.":             "",
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com.com":          "",
		"123456789012.dkr.ecr.evil.example.amazonaws.com":           "",
		"123456789012.dkr.ecr.eu-west-1.amazonawsXcom":              "",
		"12345678901.dkr.ecr.eu-west-1.amazonaws.com":               "",
		"x123456789012.dkr.ecr.eu-west-1.amazonaws.com":             "",
		"evil.123456789012.dkr.ecr.eu-west-1.amazonaws.com":         "",
		"123456789012.dkr.s3.eu-west-1.amazonaws.com":               "",
		"evil.s3.amazonaws.com":                                     "",
		"public.ecr.aws":                                            "",
		"shop.azurecr.io.evil.example":                              "",
		"shop.azurecr.io:443":                                       "",
		"shop.azurecrXio":                                           "",
		"evil.shop.azurecr.io":                                      "",
		"azurecr.io":                                                "",
		"notazurecr.io":                                             "",
		"mcr.microsoft.com":                                         "",
		"169.254.169.254":                                           "",
		"index.docker.io":                                           "",
	} {
		got := ""
		if amazonHosts.MatchString(host) {
			got += amazon
		}
		if azureHosts.MatchString(host) {
			got += azure
		}
		if got != want {
			t.Errorf("%s is %q, want %q", host, got, want)
		}
	}
}

// amazonLogin makes Amazon's token service one on loopback. It returns how often that was
// asked, what it answers with, and the home folder of the process.
func amazonLogin(t *testing.T) (asked *atomic.Int32, answer *atomic.Value, home string) {
	t.Helper()
	asked, answer, home = new(atomic.Int32), new(atomic.Value), t.TempDir()
	answer.Store(fmt.Sprintf(`{"authorizationData":[{"authorizationToken":%q,"expiresAt":4102444800,"proxyEndpoint":"https://123456789012.dkr.ecr.eu-west-1.amazonaws.com"}]}`,
		base64.StdEncoding.EncodeToString([]byte("AWS:t0ken"))))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		body := answer.Load().(string)
		if !strings.HasPrefix(body, `{"authorizationData"`) {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	for key, value := range map[string]string{
		"AWS_ENDPOINT_URL_ECR": server.URL, "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "hunter2",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": filepath.Join(home, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(home, "credentials"),
		"AWS_PROFILE": "", "HOME": home, "AWS_ECR_DISABLE_CACHE": "", "AWS_ECR_CACHE_DIR": filepath.Join(home, ".ecr"),
	} {
		t.Setenv(key, value)
	}
	return asked, answer, home
}

// loginOf is user/password, or the refresh token in place of the password.
func loginOf(t *testing.T, c *Client, host string, kc authn.Keychain) (string, error) {
	t.Helper()
	repo, err := name.NewRepository(host + "/shop/web")
	ok(t, err)
	who, err := c.access(t.Context(), repo, kc)
	if err != nil || who[0].config == nil {
		return "", err
	}
	return who[0].config.Username + "/" + who[0].config.Password + who[0].config.IdentityToken, nil
}

func TestClient_AsksAmazonForAmazonsRegistriesOnly(t *testing.T) {
	const host = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
	asked, answer, home := amazonLogin(t)
	good := answer.Load()
	if got, err := loginOf(t, New(Options{Google: true, Azure: true, Keychain: fixed{}}), host, nil); got != "" || err != nil || asked.Load() != 0 {
		t.Errorf("without the option: %q, %v, asked %d times", got, err, asked.Load())
	}
	clock := newFakeClock()
	c := clock.client(Options{Amazon: true, Keychain: fixed{}})
	for _, other := range []string{host + ".evil.example", "shop.azurecr.io", "public.ecr.aws", "index.docker.io"} {
		if got, err := loginOf(t, c, other, nil); got != "" || err != nil || asked.Load() != 0 {
			t.Errorf("%s: %q, %v, asked %d times", other, got, err, asked.Load())
		}
	}
	if got, err := loginOf(t, c, host, alice); got != "alice/hunter2" || err != nil || asked.Load() != 0 {
		t.Errorf("with credentials of its own: %q, %v, asked %d times", got, err, asked.Load())
	}
	answer.Store(`{"__type":"InvalidParameterException","message":"hunter2"}`)
	if got, err := loginOf(t, c, host, nil); got != "" || err == nil || asked.Load() != 1 || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "no credentials for Amazon's registries") {
		t.Errorf("where Amazon refuses: %q, %v, asked %d times", got, err, asked.Load())
	}
	answer.Store(good)
	for range 2 {
		if got, err := loginOf(t, c, host, nil); got != "AWS/t0ken" || err != nil || asked.Load() != 2 {
			t.Errorf("%q, %v, asked %d times", got, err, asked.Load())
		}
	}
	clock.advance(limits.CloudCredentialsTTL + time.Second)
	if got, err := loginOf(t, c, host, nil); got != "AWS/t0ken" || err != nil || asked.Load() != 3 {
		t.Errorf("after their time: %q, %v, asked %d times", got, err, asked.Load())
	}
	if left, err := os.ReadDir(home); err != nil || len(left) != 0 {
		t.Errorf("files were left in the home folder: %v, %v", left, err)
	}
}

// The helper itself panics at this.
func TestClient_SurvivesABadConfigurationOfAmazon(t *testing.T) {
	asked, _, home := amazonLogin(t)
	ok(t, os.WriteFile(filepath.Join(home, "config"), []byte("[default]\nretry_mode = hunter2\nendpoint_url = %zz\n"), 0o600))
	c := New(Options{Amazon: true})
	got, err := loginOf(t, c, "123456789012.dkr.ecr.eu-west-1.amazonaws.com", nil)
	if got != "" || err == nil || strings.Contains(err.Error(), "hunter2") || asked.Load() != 0 {
		t.Errorf("%q, %v, asked %d times", got, err, asked.Load())
	}
}

func TestClient_AsksAzureForAzuresRegistriesOnly(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"invalid_client","error_description":"hunter2"}`))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "cloud.json")
	ok(t, os.WriteFile(file, fmt.Appendf(nil, `{"name":"local","activeDirectoryEndpoint":"%[1]s/","resourceManagerEndpoint":"%[1]s/"}`, server.URL), 0o600))
	for key, value := range map[string]string{
		"AZURE_ENVIRONMENT": "AzureStackCloud", "AZURE_ENVIRONMENT_FILEPATH": file, "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "hunter2",
	} {
		t.Setenv(key, value)
	}
	if got, err := loginOf(t, New(Options{Google: true, Amazon: true}), "shop.azurecr.io", nil); got != "" || err != nil || asked.Load() != 0 {
		t.Errorf("without the option: %q, %v, asked %d times", got, err, asked.Load())
	}
	c := New(Options{Azure: true})
	for _, other := range []string{"shop.azurecr.io.evil.example", "mcr.microsoft.com", "gcr.io"} {
		if got, err := loginOf(t, c, other, nil); got != "" || err != nil || asked.Load() != 0 {
			t.Errorf("%s: %q, %v, asked %d times", other, got, err, asked.Load())
		}
	}
	got, err := loginOf(t, c, "shop.azurecr.io", nil)
	if got != "" || err == nil || asked.Load() == 0 || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "no credentials for Azure's registries") {
		t.Errorf("where Azure refuses: %q, %v, asked %d times", got, err, asked.Load())
	}
}

func TestCloudKeychain_GuardsItsHelper(t *testing.T) {
	shop := regexp.MustCompile(`^shop\.example\.com$`)
	repo, err := name.NewRepository("shop.example.com/web")
	ok(t, err)
	for title, tc := range map[string]struct {
		ask  func(context.Context, string) (authn.AuthConfig, error)
		want string
	}{
		"one that panics": {func(context.Context, string) (authn.AuthConfig, error) { panic("hunter2") }, "no credentials for Their registries on this machine"},
		"one that fails": {func(context.Context, string) (authn.AuthConfig, error) {
			return authn.AuthConfig{}, fmt.Errorf("hunter2")
		}, "no credentials for Their registries on this machine"},
		"one that has nothing": {func(context.Context, string) (authn.AuthConfig, error) { return authn.AuthConfig{}, nil },
			"no credentials for Their registries on this machine"},
		"one that hangs and knows no deadline": {func(context.Context, string) (authn.AuthConfig, error) {
			time.Sleep(time.Hour)
			return authn.AuthConfig{}, nil
		}, "(limits.CloudCredentials)"},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := newCloudKeychain("Their", shop, time.Now, tc.ask).Resolve(repo)
				if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("got %v", err)
				}
				if waited := time.Since(start); waited > limits.CloudCredentials {
					t.Errorf("waited %s", waited)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}
