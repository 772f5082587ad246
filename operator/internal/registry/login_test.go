package registry

import (
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

type fixed authn.AuthConfig

func (f fixed) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.FromConfig(authn.AuthConfig(f)), nil
}

var alice = fixed{Username: "alice", Password: "hunter2"}

// guarded is a shop whose registry takes only tokens of the server.
func guarded(t *testing.T, options testkit.TokenOptions) (*shop, *testkit.TokenServer) {
	t.Helper()
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, s.key.SignBundle(s.repository, s.digest))
	tokens := testkit.NewTokenServer(options)
	t.Cleanup(tokens.Close)
	s.RequireTokens(tokens)
	s.ResetCounts()
	return s, tokens
}

func TestClient_LogsInWithTokens(t *testing.T) {
	for title, tc := range map[string]struct {
		options testkit.TokenOptions
		keys    authn.Keychain
		method  string
		basic   bool
	}{
		"for nothing":          {testkit.TokenOptions{}, nil, http.MethodGet, false},
		"for a password":       {testkit.TokenOptions{User: "alice", Password: "hunter2"}, alice, http.MethodGet, true},
		"for a refresh token":  {testkit.TokenOptions{User: "x", IdentityToken: "r3fr3sh"}, fixed{IdentityToken: "r3fr3sh"}, http.MethodPost, false},
		"that name their time": {testkit.TokenOptions{User: "alice", Password: "hunter2", Lifetime: time.Hour}, alice, http.MethodGet, true},
	} {
		t.Run(title, func(t *testing.T) {
			s, tokens := guarded(t, tc.options)
			c := New(Options{})
			found, err := s.look(t.Context(), c, tc.keys)
			if err != nil || len(found) != 1 {
				t.Fatalf("%d, %v", len(found), err)
			}
			asked := tokens.Requests()
			if len(asked) != 1 || asked[0].Method != tc.method || asked[0].Service != "registry" ||
				asked[0].Scope != "repository:shop/web:pull" || (asked[0].Authorization != "") != tc.basic {
				t.Errorf("the token server saw %+v", asked)
			}
			// The first is answered 401, be it the ping; then list, manifest, blob and .sig.
			if s.Depth() != 5 {
				t.Errorf("%d deep: %v", s.Depth(), s.Counts())
			}
			if _, err := c.Resolve(t.Context(), s.ref(t, ":1"), tc.keys); err != nil || len(tokens.Requests()) != 1 {
				t.Errorf("the token was not used again: %v", err)
			}
		})
	}
}

// The second repository of a registry does not have to find out how to log in.
func TestClient_KnowsHowToLogInFromTheFirstTime(t *testing.T) {
	s, tokens := guarded(t, testkit.TokenOptions{User: "alice", Password: "hunter2"})
	c := New(Options{})
	if _, err := s.look(t.Context(), c, alice); err != nil {
		t.Fatal(err)
	}
	s.ResetCounts()
	_, err := c.Resolve(t.Context(), images.Reference{Repository: s.Host() + "/shop/other", Tag: "1"}, alice)
	var known *Error
	if !errors.As(err, &known) || !known.notFound() || s.Depth() != 1 || len(tokens.Requests()) != 2 {
		t.Errorf("%v after %d requests and %d tokens", err, s.Depth(), len(tokens.Requests()))
	}
}

func TestClient_RenewsTokens(t *testing.T) {
	clock := newFakeClock()
	s, tokens := guarded(t, testkit.TokenOptions{Lifetime: 100 * time.Second, Now: clock.Now})
	c := clock.client(Options{})
	resolve := func(when string, wantTokens, wantRequests int) {
		t.Helper()
		s.ResetCounts()
		if _, err := c.Resolve(t.Context(), s.ref(t, ":1"), nil); err != nil || len(tokens.Requests()) != wantTokens || s.Depth() != wantRequests {
			t.Errorf("%s: %v, %d tokens, %d requests", when, err, len(tokens.Requests()), s.Depth())
		}
	}
	resolve("at first", 1, 2)
	resolve("soon after", 1, 1)
	clock.advance(91 * time.Second)
	resolve("before its end", 2, 1)
	tokens.Revoke()
	resolve("when it is no longer taken", 3, 2)
}

func TestClient_TellsWhyTheLoginFailed(t *testing.T) {
	answer := func(status int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	for title, tc := range map[string]struct {
		options testkit.TokenOptions
		keys    authn.Keychain
		status  int
		want    string
	}{
		"a wrong password":       {testkit.TokenOptions{User: "alice", Password: "other"}, alice, 401, "401 Unauthorized: check the image pull secret"},
		"no password":            {testkit.TokenOptions{User: "alice", Password: "hunter2"}, nil, 401, "401 Unauthorized: check the image pull secret"},
		"a token server in need": {testkit.TokenOptions{Answer: answer(500, "")}, nil, 500, "500 Internal Server Error"},
		"a redirect":             {testkit.TokenOptions{Answer: answer(307, "")}, alice, 307, "307 Temporary Redirect"},
		"a web page":             {testkit.TokenOptions{Answer: answer(200, "<html>hunter2")}, nil, 0, "the token server's answer is not JSON"},
		"an empty answer":        {testkit.TokenOptions{Answer: answer(200, "{}")}, nil, 0, "the token server's answer holds no token"},
		"a token with a line":    {testkit.TokenOptions{Answer: answer(200, `{"token":"a\r\nX: y"}`)}, nil, 0, "the token server's answer holds no token"},
		"a token without end":    {testkit.TokenOptions{Answer: answer(200, `{"token":"`+strings.Repeat("a", limits.RegistryTokenBytes))}, nil, 0, "(limits.RegistryTokenBytes)"},
		"a realm that is none":   {testkit.TokenOptions{Realm: "%zz"}, nil, 0, "names no server"},
		"a realm of a file":      {testkit.TokenOptions{Realm: "file:///etc/passwd"}, nil, 0, "not a URL that can be asked"},
		"metadata":               {testkit.TokenOptions{Realm: "https://169.254.169.254/latest"}, nil, 0, "by an address that is not its own"},
		"metadata by a name":     {testkit.TokenOptions{Realm: "https://metadata.example.com/"}, nil, 0, "link-local or metadata address"},
	} {
		t.Run(title, func(t *testing.T) {
			s, _ := guarded(t, tc.options)
			c := New(Options{Mirrors: map[string]string{"metadata.example.com": "169.254.169.254:443"}})
			_, err := c.Resolve(t.Context(), s.ref(t, ":1"), tc.keys)
			var known *Error
			if !errors.As(err, &known) || known.Status != tc.status || !strings.Contains(err.Error(), "cannot log in to the registry") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error holds a secret: %v", err)
			}
		})
	}
}

func TestHosts_DecideWhoMayBeGivenCredentials(t *testing.T) {
	h := newHosts(Options{
		Mirrors: map[string]string{"mirrored.example.com": "10.0.0.7:5000", "docker.io": "hub.corp.example:443"}, TokenHosts: []string{"login.cloud.example"},
		Insecure: []string{"plain.example.com", "10.0.0.9:5000", "10.0.0.9:5001"},
	})
	for title, tc := range map[string]struct {
		realm, registry, scheme string
		withPassword, without   bool
	}{
		"its own host":                        {"https://registry.example.com/token", "registry.example.com", "https", true, true},
		"its own host at another port":        {"https://registry.example.com:8443/token", "registry.example.com:5000", "https", true, true},
		"Docker Hub":                          {"https://auth.docker.io/token", "index.docker.io", "https", true, true},
		"GitLab":                              {"https://gitlab.com/jwt/auth", "registry.gitlab.com", "https", true, true},
		"another host of the site":            {"https://auth.example.com/token", "registry.example.com", "https", true, true},
		"another site":                        {"https://auth.docker.io/token", "mirror.corp.example", "https", false, true},
		"another customer of a shared domain": {"https://evil.github.io/token", "shop.github.io", "https", false, true},
		"a name that ends alike":              {"https://evilexample.com/token", "registry.example.com", "https", false, true},
		"a site that is allowed":              {"https://login.cloud.example/token", "registry.example.com", "https", true, true},
		"the mirror's host":                   {"https://10.0.0.7/token", "mirrored.example.com", "https", true, true},
		"the mirror's host, for Docker Hub":   {"https://hub.corp.example/token", "index.docker.io", "https", true, true},
		"a private address":                   {"https://10.0.0.1/token", "registry.example.com", "https", false, false},
		"its own private address":             {"https://10.0.0.1/token", "10.0.0.1:5000", "https", true, true},
		"this machine":                        {"https://localhost/token", "registry.example.com", "https", false, false},
		"this machine by address":             {"https://[::1]/token", "registry.example.com", "https", false, false},
		"a public address":                    {"https://192.0.2.1/token", "registry.example.com", "https", false, false},
		"plain HTTP":                          {"http://registry.example.com/token", "registry.example.com", "https", false, false},
		"plain HTTP from HTTPS, if allowed":   {"http://plain.example.com/token", "plain.example.com", "https", false, false},
		"plain HTTP where that is spoken":     {"http://plain.example.com/token", "plain.example.com", "http", true, true},
		"plain HTTP by address":               {"http://10.0.0.9:5001/token", "10.0.0.9:5000", "http", true, true},
		"plain HTTP elsewhere":                {"http://auth.example.com/token", "plain.example.com", "http", false, false},
		"a password in the URL":               {"https://a:b@registry.example.com/token", "registry.example.com", "https", false, false},
		"no host":                             {"https:///token", "registry.example.com", "https", false, false},
		"another scheme":                      {"ftp://registry.example.com/token", "registry.example.com", "https", false, false},
	} {
		realm, err := url.Parse(tc.realm)
		ok(t, err)
		for password, want := range map[bool]bool{true: tc.withPassword, false: tc.without} {
			if err := h.checkRealm(realm, tc.registry, tc.scheme, password); (err == nil) != want {
				t.Errorf("%s, with a password %v: %v", title, password, err)
			}
		}
	}
}

// From end to end: the token server of another site is not even connected to.
func TestClient_SendsNoPasswordToAnotherSite(t *testing.T) {
	for title, tc := range map[string]struct {
		registry string
		keys     authn.Keychain
		allowed  []string
		want     bool
	}{
		"the same site":               {"registry.example.com", alice, nil, true},
		"another site":                {"registry.example.net", alice, nil, false},
		"another site, no password":   {"registry.example.net", nil, nil, true},
		"another site that may be so": {"registry.example.net", alice, []string{"example.com"}, true},
	} {
		t.Run(title, func(t *testing.T) {
			s, tokens := guarded(t, testkit.TokenOptions{Realm: "https://example.com/token", TLS: true})
			_, address, _ := strings.Cut(tokens.Server.URL, "://")
			c := New(Options{
				Mirrors:    map[string]string{tc.registry: s.Host(), "example.com": address},
				TokenHosts: tc.allowed, Transport: trusting(tokens.Server),
			})
			digest, err := c.Resolve(t.Context(), images.Reference{Repository: tc.registry + "/shop/web", Tag: "1"}, tc.keys)
			asked := tokens.Requests()
			if tc.want {
				if err != nil || digest != s.digest || len(asked) != 1 || (asked[0].Authorization != "") != (tc.keys != nil) {
					t.Errorf("%s, %v, %+v", digest, err, asked)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "it wants its credentials sent to a token server at another site") || len(asked) != 0 {
				t.Errorf("%v, %+v", err, asked)
			}
		})
	}
}

func TestClient_TrustsAPrivateAuthority(t *testing.T) {
	s := testkit.NewRegistry(testkit.RegistryOptions{TLS: true})
	t.Cleanup(s.Close)
	pushed := &http.Transport{TLSClientConfig: trusting(s.Server).TLSClientConfig}
	digest, err := testkit.PushImage(s.Host()+"/shop/web:1", "web", withTransport(pushed))
	ok(t, err)
	ref, err := images.Parse(s.Host() + "/shop/web:1")
	ok(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(s.Server.Certificate())
	if got, err := New(Options{Transport: withRoots(pool)}).Resolve(t.Context(), ref, nil); err != nil || got != digest {
		t.Errorf("with its authority: %s, %v", got, err)
	}
	_, err = New(Options{}).Resolve(t.Context(), ref, nil)
	if err == nil || !strings.Contains(err.Error(), "its certificate is not trusted") || !strings.Contains(err.Error(), "--registry-ca-file") {
		t.Errorf("without: %v", err)
	}
}

func TestChallenges_ReadWhatRegistriesSend(t *testing.T) {
	for title, tc := range map[string]struct {
		headers []string
		want    []challenge
	}{
		"a token":      {[]string{`Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push"`}, []challenge{{"bearer", map[string]string{"realm": "https://auth.docker.io/token", "service": "registry.docker.io", "scope": "repository:a/b:pull,push"}}}},
		"a password":   {[]string{`Basic realm="Registry"`}, []challenge{{"basic", map[string]string{"realm": "Registry"}}}},
		"two in one":   {[]string{`Negotiate, Basic realm=x`}, []challenge{{"negotiate", map[string]string{}}, {"basic", map[string]string{"realm": "x"}}}},
		"two headers":  {[]string{`Negotiate`, `Bearer realm = "a\"b"`}, []challenge{{"negotiate", map[string]string{}}, {"bearer", map[string]string{"realm": `a"b`}}}},
		"no end":       {[]string{`Bearer realm="https://x`}, []challenge{{"bearer", map[string]string{}}}},
		"no scheme":    {[]string{`realm="x"`}, nil},
		"an empty one": {[]string{``}, nil},
		"noise":        {[]string{`"',=;@`}, nil},
	} {
		got := challenges(http.Header{"Www-Authenticate": tc.headers})
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(challenge{})); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
	}
}

func FuzzChallenges(f *testing.F) {
	f.Add(`Bearer realm="https://x/token",service="y"`)
	f.Add(`Basic realm="a\"b", Negotiate abc==, Bearer x=y`)
	f.Add(`a=b, c d="`)
	f.Fuzz(func(t *testing.T, header string) {
		for _, c := range readChallenges(header) {
			if c.scheme == "" || c.parameters == nil {
				t.Errorf("%+v", c)
			}
		}
	})
}
