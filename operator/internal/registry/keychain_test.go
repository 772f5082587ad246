package registry

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// userFor is the user that a keychain has for an image, "" for none.
func userFor(t *testing.T, keys authn.Keychain, repository string) string {
	t.Helper()
	repo, err := name.NewRepository(repository)
	ok(t, err)
	auth, err := authn.Resolve(t.Context(), keys, repo)
	ok(t, err)
	config, err := authn.Authorization(t.Context(), auth)
	ok(t, err)
	return config.Username
}

// configOf is a .dockerconfigjson in which each entry's user has the entry's name.
func configOf(entries ...string) []byte {
	auths := map[string]any{}
	for _, e := range entries {
		auths[e] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(e, ":", ";") + ":hunter2"))}
	}
	raw, _ := json.Marshal(map[string]any{"auths": auths})
	return raw
}

func TestPullSecretKeychain_MatchesAsTheKubeletDoes(t *testing.T) {
	for title, tc := range map[string]struct {
		entries    []string
		repository string
		want       string
	}{
		"a host":                             {[]string{"registry.example.com"}, "registry.example.com/shop/web", "registry.example.com"},
		"another host":                       {[]string{"registry.example.com"}, "registry.example.org/shop/web", ""},
		"a host that ends alike":             {[]string{"example.com"}, "registry.example.com/shop/web", ""},
		"with a scheme and a version":        {[]string{"https://registry.example.com/v2/"}, "registry.example.com/shop/web", "https;//registry.example.com/v2/"},
		"a port":                             {[]string{"registry.example.com:5000"}, "registry.example.com:5000/shop/web", "registry.example.com;5000"},
		"another port":                       {[]string{"registry.example.com:5000"}, "registry.example.com:5001/shop/web", ""},
		"no port where there is one":         {[]string{"registry.example.com"}, "registry.example.com:5000/shop/web", ""},
		"a path":                             {[]string{"registry.example.com/shop"}, "registry.example.com/shop/web", "registry.example.com/shop"},
		"another path":                       {[]string{"registry.example.com/shop"}, "registry.example.com/bank/web", ""},
		"the longer path first":              {[]string{"registry.example.com", "registry.example.com/shop/web", "registry.example.com/shop"}, "registry.example.com/shop/web", "registry.example.com/shop/web"},
		"the host where the path is another": {[]string{"registry.example.com", "registry.example.com/bank"}, "registry.example.com/shop/web", "registry.example.com"},
		"a pattern":                          {[]string{"*.example.com"}, "registry.example.com/shop/web", "*.example.com"},
		"a pattern for one part only":        {[]string{"*.example.com"}, "a.registry.example.com/shop/web", ""},
		"a pattern within a part":            {[]string{"reg*.example.com"}, "registry.example.com/shop/web", "reg*.example.com"},
		"a pattern with a path":              {[]string{"*.example.com/shop"}, "registry.example.com/shop/web", "*.example.com/shop"},
		"a pattern with another path":        {[]string{"*.example.com/bank"}, "registry.example.com/shop/web", ""},
		"a host before a pattern":            {[]string{"*.example.com/shop", "registry.example.com"}, "registry.example.com/shop/web", "registry.example.com"},
		"a pattern that is broken":           {[]string{"[.example.com", "registry.example.com"}, "registry.example.com/shop/web", "registry.example.com"},
		"an entry that is no URL":            {[]string{"%zz", "registry.example.com"}, "registry.example.com/shop/web", "registry.example.com"},
		"Docker Hub":                         {[]string{"https://index.docker.io/v1/"}, "nginx", "https;//index.docker.io/v1/"},
		"Docker Hub by its name":             {[]string{"docker.io"}, "shop/web", "docker.io"},
		"one namespace of Docker Hub":        {[]string{"https://index.docker.io/v1/", "docker.io/shop"}, "shop/web", "docker.io/shop"},
		"Docker Hub for another registry":    {[]string{"https://index.docker.io/v1/"}, "registry.example.com/shop/web", ""},
		"an address by IPv6":                 {[]string{"[::1]:5000"}, "[::1]:5000/shop/web", "[;;1];5000"},
	} {
		t.Run(title, func(t *testing.T) {
			keys, err := PullSecretKeychain([][]byte{configOf(tc.entries...)})
			ok(t, err)
			if got := userFor(t, keys, tc.repository); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPullSecretKeychain_ReadsBothFormats(t *testing.T) {
	first := []byte(`{"auths":{"a.example.com":{"username":"new","password":"x"}},"credHelpers":{"b.example.com":"evil"}}`)
	second := []byte(`{"a.example.com":{"username":"late","password":"x"},"b.example.com":{"auth":"b2xkOng=","email":"x"}}`)
	keys, err := PullSecretKeychain([][]byte{first, second})
	ok(t, err)
	for repository, want := range map[string]string{"a.example.com/x": "new", "b.example.com/x": "old", "c.example.com/x": ""} {
		if got := userFor(t, keys, repository); got != want {
			t.Errorf("%s: %q, want %q", repository, got, want)
		}
	}
	none, err := PullSecretKeychain(nil)
	ok(t, err)
	if got := userFor(t, none, "a.example.com/x"); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestPullSecretKeychain_QuotesNothing(t *testing.T) {
	for title, raw := range map[string]string{
		"no JSON":                 `hunter2`,
		"a list":                  `["hunter2"]`,
		"auths that is a text":    `{"auths":"hunter2"}`,
		"an entry that is a text": `{"auths":{"hunter2":"hunter2"}}`,
		"an auth that is no text": `{"auths":{"a":{"auth":{"hunter2":1}}}}`,
		"an auth of noise":        `{"auths":{"a":{"auth":"hunter2!"}}}`,
		"an auth without a colon": `{"auths":{"a":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("hunter2")) + `"}}}`,
		"an older entry of text":  `{"hunter2":"hunter2"}`,
		"an older one, a number":  `{"a":{"username":42}}`,
	} {
		_, err := PullSecretKeychain([][]byte{configOf("fine.example.com"), []byte(raw)})
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "42") || !strings.HasPrefix(err.Error(), "image pull secret 1: it is not a docker config") {
			t.Errorf("%s: %v", title, err)
		}
	}
}

func TestPullSecretKeychain_LogsIn(t *testing.T) {
	s, tokens := guarded(t, testkit.TokenOptions{User: "alice", Password: "hunter2"})
	raw := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, s.Host(), base64.StdEncoding.EncodeToString([]byte("alice:hunter2")))
	keys, err := PullSecretKeychain([][]byte{[]byte(raw)})
	ok(t, err)
	if digest, err := New(Options{}).Resolve(t.Context(), s.ref(t, ":1"), keys); err != nil || digest != s.digest || len(tokens.Requests()) != 1 {
		t.Errorf("%s, %v", digest, err)
	}
}

// secretOf is a .dockerconfigjson for one entry.
func secretOf(entry, user, password string) []byte {
	return fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, entry, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

// Several pull Secrets for one host are tried in turn, and the one that did is tried first
// the next time.
func TestPullSecretKeychain_TriesTheNextWhereOneIsRefused(t *testing.T) {
	for title, tc := range map[string]struct {
		// answer of the token server to all, where it is not its own.
		answer http.Handler
		// users of the Secrets, of whom alice is the right one.
		users []string
		// first and then are who asked for a token, the first time and the second.
		first, then []string
		status      int
	}{
		"the first does":               {nil, []string{"alice", "bob"}, []string{"alice"}, nil, 0},
		"the second does":              {nil, []string{"bob", "alice"}, []string{"bob", "alice"}, nil, 0},
		"the third does":               {nil, []string{"bob", "carol", "alice"}, []string{"bob", "carol", "alice"}, nil, 0},
		"the same twice, then another": {nil, []string{"bob", "bob", "alice"}, []string{"bob", "alice"}, nil, 0},
		"none does":                    {nil, []string{"bob", "carol"}, []string{"bob", "carol"}, []string{"bob", "carol"}, 401},
		"more than are tried":          {nil, strings.Fields("1 2 3 4 5 6 7 8 alice"), strings.Fields("1 2 3 4 5 6 7 8"), strings.Fields("1 2 3 4 5 6 7 8"), 401},
		"another failure":              {testkit.Status(418), []string{"bob", "alice"}, []string{"bob"}, []string{"bob"}, 418},
		"forbidden is refused":         {testkit.Status(403), []string{"bob", "alice"}, []string{"bob", "alice"}, []string{"bob", "alice"}, 403},
	} {
		t.Run(title, func(t *testing.T) {
			s, tokens := guarded(t, testkit.TokenOptions{User: "alice", Password: "hunter2", Lifetime: time.Hour, Answer: tc.answer})
			var secrets [][]byte
			for _, user := range tc.users {
				secrets = append(secrets, secretOf(s.Host(), user, "hunter2"))
			}
			keys, err := PullSecretKeychain(secrets)
			ok(t, err)
			c := New(Options{})
			for i, want := range [][]string{tc.first, tc.then} {
				before := len(tokens.Requests())
				digest, err := c.Resolve(t.Context(), s.ref(t, ":1"), keys)
				var known *Error
				if tc.status == 0 && (err != nil || digest != s.digest) || tc.status != 0 && (!errors.As(err, &known) || known.Status != tc.status) {
					t.Errorf("look %d: %s, %v", i, digest, err)
				}
				var asked []string
				for _, r := range tokens.Requests()[before:] {
					req := http.Request{Header: http.Header{"Authorization": {r.Authorization}}}
					user, _, _ := req.BasicAuth()
					asked = append(asked, user)
				}
				if diff := cmp.Diff(want, asked); diff != "" {
					t.Errorf("look %d: %s", i, diff)
				}
			}
			if tc.status == 0 {
				if found, err := s.look(t.Context(), c, keys); err != nil || len(found) != 1 || len(tokens.Requests()) != len(tc.first) {
					t.Errorf("%d signatures, %v, after %d logins", len(found), err, len(tokens.Requests()))
				}
			}
		})
	}
}

// googleLogin makes this machine's Google credentials ones of a server on loopback. It
// returns how often that was asked, and a way to break it.
func googleLogin(t *testing.T) (asked *atomic.Int32, fail *atomic.Bool) {
	t.Helper()
	asked, fail = new(atomic.Int32), new(atomic.Bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if fail.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("hunter2"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"ya29.token","token_type":"Bearer","expires_in":3600}`))
	}))
	t.Cleanup(server.Close)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	ok(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	ok(t, err)
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "sluice@example.iam.gserviceaccount.com", "token_uri": server.URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	ok(t, err)
	file := filepath.Join(t.TempDir(), "account.json")
	ok(t, os.WriteFile(file, account, 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	return asked, fail
}

func TestClient_AsksGoogleForGooglesRegistriesOnly(t *testing.T) {
	asked, fail := googleLogin(t)
	c := New(Options{Google: true, Keychain: fixed{}})
	user := func(host string, kc authn.Keychain) (string, error) {
		repo, err := name.NewRepository(host + "/project/web")
		ok(t, err)
		who, err := c.access(t.Context(), repo, kc)
		if err != nil || who[0].config == nil {
			return "", err
		}
		return who[0].config.Username + "/" + who[0].config.Password, nil
	}
	for _, host := range []string{"index.docker.io", "registry.example.com", "gcr.io.example.com", "notgcr.io", "pkg.dev.example.com", "xpkg.dev", "www.google.com"} {
		if got, err := user(host, nil); got != "" || err != nil || asked.Load() != 0 {
			t.Errorf("%s: %q, %v, Google was asked %d times", host, got, err, asked.Load())
		}
	}
	if got, err := user("gcr.io", alice); got != "alice/hunter2" || err != nil || asked.Load() != 0 {
		t.Errorf("with credentials of its own: %q, %v, %d", got, err, asked.Load())
	}
	fail.Store(true)
	if got, err := user("gcr.io", nil); got != "" || err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("where Google fails: %q, %v", got, err)
	}
	fail.Store(false)
	asked.Store(0)
	for _, host := range []string{"gcr.io", "eu.gcr.io", "europe-docker.pkg.dev"} {
		if got, err := user(host, nil); got != "_token/ya29.token" || err != nil || asked.Load() != 1 {
			t.Errorf("%s: %q, %v, asked %d times", host, got, err, asked.Load())
		}
	}
	repo, err := name.NewRepository("gcr.io/project/web")
	ok(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newGoogleKeychain().ResolveContext(gone, repo); err == nil {
		t.Error("a caller that is gone was waited for")
	}
	if who, err := New(Options{}).access(t.Context(), repo, nil); err != nil || len(who) != 1 || who[0].config != nil {
		t.Errorf("without the option: %+v, %v", who, err)
	}
}
