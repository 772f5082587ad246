package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func environment(namespace string) func(string) string {
	return func(key string) string {
		if key == "POD_NAMESPACE" {
			return namespace
		}
		return ""
	}
}

func TestParse_TakesTheDefaults(t *testing.T) {
	c, err := parse(nil, environment("sluice-system"))
	if err != nil {
		t.Fatal(err)
	}
	if c.namespace != "sluice-system" || !c.leaderElection || c.workers != 4 || c.webhookPort != 9443 {
		t.Errorf("%+v", c)
	}
	if c.leaseDuration != 15*time.Second || c.renewDeadline != 10*time.Second || c.retryPeriod != 2*time.Second {
		t.Errorf("leader election: %s, %s, %s", c.leaseDuration, c.renewDeadline, c.retryPeriod)
	}
	want := []string{"sluice-webhook.sluice-system.svc", "sluice-webhook.sluice-system.svc.cluster.local"}
	if diff := cmp.Diff(want, c.webhookHosts()); diff != "" {
		t.Error(diff)
	}
}

func TestParse_TakesRepeatedFlags(t *testing.T) {
	c, err := parse([]string{
		"--namespace=ops", "--webhook-host=a.example.com", "--webhook-host=127.0.0.1", "--insecure-registry=registry.local:5000",
		"--registry-token-host=auth.example.com", "--registry-allow-address=169.254.20.10", "--registry-allow-address=fe80::/64", "--google-credentials", "--amazon-credentials", "--azure-credentials", "--registry-mirror=registry.example.com=127.0.0.1:5000", "--registry-mirror=other.example.com=[::1]:5000",
	}, environment("sluice-system"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"registry.example.com": "127.0.0.1:5000", "other.example.com": "[::1]:5000"}
	if diff := cmp.Diff(want, c.mirrors); diff != "" {
		t.Error(diff)
	}
	if c.namespace != "ops" || len(c.webhookHosts()) != 4 || len(c.insecure) != 1 || len(c.tokenHosts) != 1 || len(c.addresses) != 2 || !c.google || !c.amazon || !c.azure {
		t.Errorf("%+v", c)
	}
}

func TestConfig_GivesEachShardALeaderOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, selector := range []string{"", "shard=a", "shard=b", "shard notin (a, b)"} {
		c, err := parse([]string{"--watch-label-selector=" + selector}, environment("sluice-system"))
		if err != nil {
			t.Fatal(err)
		}
		lease := c.lease()
		if other, twice := seen[lease]; twice {
			t.Errorf("%q and %q share the lease %s", selector, other, lease)
		}
		if messages := validation.IsDNS1123Subdomain(lease); len(messages) > 0 {
			t.Errorf("%s: %v", lease, messages)
		}
		seen[lease] = selector
	}
}

func TestParse_SaysWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown flag":           {[]string{"--nonesuch"}, "-nonesuch"},
		"a number that is none":     {[]string{"--workers=many"}, "-workers"},
		"no worker":                 {[]string{"--workers=0"}, "between 1 and 64"},
		"too many workers":          {[]string{"--workers=65"}, "between 1 and 64"},
		"no pause":                  {[]string{"--retry-base-delay=0"}, "--retry-base-delay=0"},
		"a pause that shrinks":      {[]string{"--retry-base-delay=1m", "--retry-max-delay=1s"}, "no longer than the second"},
		"a selector that is none":   {[]string{"--watch-label-selector=a in b"}, "--watch-label-selector=a in b"},
		"a Prometheus that is none": {[]string{"--prometheus-address=prometheus:9090"}, "--prometheus-address"},
		"a port that is none":       {[]string{"--webhook-port=70000"}, "not a port"},
		"a Lease no longer than":    {[]string{"--leader-elect-lease-duration=10s"}, "longer than --leader-elect-renew-deadline=10s"},
		"a Lease of half a second":  {[]string{"--leader-elect-lease-duration=15500ms"}, "in whole seconds"},
		"a Lease for a day":         {[]string{"--leader-elect-lease-duration=24h"}, "at most 1h0m0s"},
		"a deadline of one try":     {[]string{"--leader-elect-renew-deadline=2400ms"}, "longer than 1.2 times the first"},
		"two renewals in a second":  {[]string{"--leader-elect-retry-period=900ms"}, "at least 1s"},
		"no request per second":     {[]string{"--kube-api-qps=0"}, "--kube-api-qps=0"},
		"requests that are no sum":  {[]string{"--kube-api-qps=NaN"}, "--kube-api-qps=NaN"},
		"an argument":               {[]string{"dev"}, `unexpected argument "dev"`},
		"a mirror without a target": {[]string{"--registry-mirror=registry.example.com"}, "write HOST=HOST:PORT"},
		"a mirror without a port":   {[]string{"--registry-mirror=registry.example.com=127.0.0.1"}, "write HOST=HOST:PORT"},
		"a mirror of nothing":       {[]string{"--registry-mirror==127.0.0.1:5000"}, "write HOST=HOST:PORT"},
		"a mirror to no host":       {[]string{"--registry-mirror=a.example.com=:5000"}, "write HOST=HOST:PORT"},
		"a mirror of a URL":         {[]string{"--registry-mirror=https://a.example.com=127.0.0.1:5000"}, "write HOST=HOST:PORT"},
		"two mirrors of a host":     {[]string{"--registry-mirror=a=127.0.0.1:1", "--registry-mirror=a=127.0.0.1:2"}, "has a mirror already, 127.0.0.1:1"},
		"an address by name":        {[]string{"--registry-allow-address=metadata.example.com"}, "--registry-allow-address: \"metadata.example.com\" is no IP address"},
		"an insecure URL":           {[]string{"--insecure-registry=http://a.example.com"}, "write HOST or HOST:PORT"},
		"an empty host":             {[]string{"--webhook-host="}, "--webhook-host is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(tc.args, environment("sluice-system"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := parse(nil, environment("")); err == nil || !strings.Contains(err.Error(), "POD_NAMESPACE") {
		t.Errorf("no namespace: %v", err)
	}
}

func TestParse_GivesHelp(t *testing.T) {
	_, err := parse([]string{"--help"}, environment(""))
	usage := help("")
	if !errors.As(err, &usage) {
		t.Fatalf("help is a failure: %v", err)
	}
	for _, flag := range []string{"-namespace", "-registry-mirror", "-webhook-certificate-dir", "-leader-elect-renew-deadline", "(default 9443)"} {
		if !strings.Contains(string(usage), flag) {
			t.Errorf("help does not tell of %s", flag)
		}
	}
}

func TestNewRegistry_TrustsTheAuthoritiesItIsGiven(t *testing.T) {
	depot := testkit.NewRegistry(testkit.RegistryOptions{TLS: true})
	t.Cleanup(depot.Close)
	file := filepath.Join(t.TempDir(), "ca.crt")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: depot.Server.Certificate().Raw})
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	ref, err := images.Parse(depot.Host() + "/shop/web:1")
	if err != nil {
		t.Fatal(err)
	}
	untrusted := x509.UnknownAuthorityError{}
	for name, tc := range map[string]struct {
		files []string
		trust bool
	}{"with its authority": {[]string{file}, true}, "without": {nil, false}} {
		client, err := newRegistry(config{registryCAFiles: tc.files})
		if err != nil {
			t.Fatal(err)
		}
		// There is no such image; what counts is whether the registry was asked.
		before := depot.Requests()
		_, err = client.Resolve(t.Context(), ref, authn.DefaultKeychain)
		if asked := depot.Requests() > before; err == nil || asked != tc.trust {
			t.Errorf("%s: asked %t, unknown authority %t: %v", name, asked, errors.As(err, &untrusted), err)
		}
	}
	for name, content := range map[string]string{"no certificate": "nothing", "missing": ""} {
		bad := filepath.Join(t.TempDir(), "bad")
		if content != "" {
			if err := os.WriteFile(bad, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := newRegistry(config{registryCAFiles: []string{bad}}); err == nil || !strings.Contains(err.Error(), "--registry-ca-file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
