package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func redirect(location string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
}

func trusting(s *httptest.Server) *http.Transport {
	return &http.Transport{TLSClientConfig: s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}
}

func TestClient_GoesNowhereItShouldNot(t *testing.T) {
	for title, tc := range map[string]struct{ location, want string }{
		"cloud metadata":               {"http://169.254.169.254/latest/meta-data/", "link-local or metadata address"},
		"cloud metadata over HTTPS":    {"https://169.254.169.254/", "link-local or metadata address"},
		"cloud metadata by IPv6":       {"https://[fd00:ec2::254]/", "link-local or metadata address"},
		"metadata in IPv4-mapped IPv6": {"https://[::ffff:169.254.169.254]/", "link-local or metadata address"},
		"metadata through NAT64":       {"https://[64:ff9b::a9fe:a9fe]/", "link-local or metadata address"},
		"a link-local host":            {"https://[fe80::1]/", "link-local or metadata address"},
		"plain HTTP on another host":   {"http://registry.example.com/x", "plain HTTP is not allowed"},
	} {
		t.Run(title, func(t *testing.T) {
			s := newShop(t, testkit.RegistryOptions{Referrers: true})
			ok(t, s.key.SignTag(s.repository, s.digest))
			s.Override(testkit.PathContains("/blobs/"), redirect(tc.location))
			c := New(Options{})
			c.deadline = 2 * time.Second
			_, err := s.look(t.Context(), c, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestRefuseMetadata_LooksAtTheAddressThatIsDialled(t *testing.T) {
	for address, refused := range map[string]bool{
		"169.254.169.254:80": true, "169.254.0.1:443": true, "[fe80::1%eth0]:443": true, "[fd00:ec2::254]:80": true,
		"[::ffff:169.254.169.254]:80": true, "[64:ff9b::a9fe:a9fe]:80": true, "224.0.0.1:80": true,
		"100.100.100.200:80": true, "168.63.129.16:80": true, "192.0.0.192:80": true, "[fd20:ce::254]:80": true, "[fd00:ec2::23]:80": true,
		"[::169.254.169.254]:80": true, "[2002:a9fe:a9fe::1]:80": true, "[::1]:5000": false, "100.100.100.201:443": false, "[2002:808:808::1]:443": false,
		"127.0.0.1:5000": false, "10.0.0.1:443": false, "[2001:db8::1]:443": false, "[fd00::1]:443": false, "[64:ff9b::808:808]:443": false,
	} {
		var known *refusedError
		if err := (hosts{}).refuseMetadata("tcp", address, nil); errors.As(err, &known) != refused || (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	// The dialler is what runs it: a mirror leads there by name.
	c := New(Options{Mirrors: map[string]string{"registry.example.com": "169.254.169.254:443"}})
	ref, err := images.Parse("registry.example.com/shop/web:1")
	ok(t, err)
	if _, err := c.Resolve(t.Context(), ref, nil); err == nil || !strings.Contains(err.Error(), "link-local or metadata address") {
		t.Errorf("got %v", err)
	}
}

// A registry may be where none is expected: on the node's own address, for one.
func TestRefuseMetadata_LeavesOutWhatIsAllowed(t *testing.T) {
	allowed, err := ParseAddresses([]string{"169.254.20.0/24", "fd00:ec2::254"})
	ok(t, err)
	h := newHosts(Options{Addresses: allowed})
	for address, refused := range map[string]bool{
		"169.254.20.10:443": false, "[::ffff:169.254.20.10]:443": false, "[64:ff9b::a9fe:140a]:443": false, "[fd00:ec2::254]:443": false,
		"169.254.21.10:443": true, "169.254.169.254:80": true, "[fd00:ec2::253]:443": true, "[fe80::1]:443": true,
	} {
		if err := h.refuseMetadata("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, wrong := range []string{"", "node", "169.254.20.10:443", "169.254.20.0/33", "fe80::1%eth0", "::ffff:169.254.20.10"} {
		if got, err := ParseAddresses([]string{wrong}); err == nil {
			t.Errorf("%q: %v", wrong, got)
		}
	}
	// By the client as a whole: nobody answers there, and it was tried.
	c := New(Options{Mirrors: map[string]string{"registry.example.com": "169.254.20.10:443"}, Addresses: allowed})
	c.deadline = 200 * time.Millisecond
	ref, err := images.Parse("registry.example.com/shop/web:1")
	ok(t, err)
	if _, err := c.Resolve(t.Context(), ref, nil); err == nil || strings.Contains(err.Error(), "link-local") {
		t.Errorf("got %v", err)
	}
}

func TestCheckRedirect_KnowsThisMachineByItsOtherName(t *testing.T) {
	from, err := http.NewRequest(http.MethodGet, "https://registry.example.com/v2/", nil)
	ok(t, err)
	for location, refused := range map[string]bool{
		"https://127.0.0.1/x": true, "https://0.0.0.0:9443/x": true, "https://[::]:9443/x": true, "https://[::ffff:0.0.0.0]/x": true, "https://localhost/x": true, "https://blobs.example.com/x": false,
	} {
		to, err := http.NewRequest(http.MethodGet, location, nil)
		ok(t, err)
		to.Response = &http.Response{Request: from}
		if err := checkRedirect(to); (err != nil) != refused {
			t.Errorf("%s: %v", location, err)
		}
	}
}

func TestClient_FollowsFewRedirects(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, s.key.SignTag(s.repository, s.digest))
	isBlob := func(r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/blobs/") && r.URL.Query().Get("hops") != "0"
	}
	hop := func(first int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			left := first
			if q := r.URL.Query().Get("hops"); q != "" {
				_, _ = fmt.Sscan(q, &left)
			}
			w.Header().Set("Location", fmt.Sprintf("%s?hops=%d", r.URL.Path, left-1))
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
	}
	s.Override(isBlob, hop(limits.RegistryRedirects))
	if found, err := s.look(t.Context(), New(Options{}), nil); err != nil || len(found) != 1 {
		t.Errorf("at the limit: %d, %v", len(found), err)
	}
	s.Restore()
	s.Override(isBlob, hop(limits.RegistryRedirects+1))
	if _, err := s.look(t.Context(), New(Options{}), nil); err == nil || !strings.Contains(err.Error(), "limits.RegistryRedirects") {
		t.Errorf("past it: %v", err)
	}
}

func TestClient_DoesNotLeaveHTTPS(t *testing.T) {
	plainServer := httptest.NewServer(body("{}"))
	t.Cleanup(plainServer.Close)
	s := testkit.NewRegistry(testkit.RegistryOptions{TLS: true})
	t.Cleanup(s.Close)
	s.Override(testkit.PathContains("/manifests/"), redirect(plainServer.URL+"/x"))
	ref, err := images.Parse(s.Host() + "/shop/web:1")
	ok(t, err)
	_, err = New(Options{Transport: trusting(s.Server)}).Resolve(t.Context(), ref, nil)
	if err == nil || !strings.Contains(err.Error(), "it redirects from HTTPS to plain HTTP") {
		t.Errorf("got %v", err)
	}
}

func TestClient_SpeaksPlainHTTPOnlyWhereAllowed(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	ref, err := images.Parse("registry.example.com/shop/web:1")
	ok(t, err)
	mirrors := map[string]string{"registry.example.com": s.Host()}
	if digest, err := New(Options{Mirrors: mirrors}).Resolve(t.Context(), ref, nil); err != nil || digest != s.digest {
		t.Errorf("a mirror on loopback: %s, %v", digest, err)
	}
	for title, tc := range map[string]struct {
		host     string
		insecure []string
		want     bool
	}{
		"a private address":              {"10.0.0.1:5000", nil, false},
		"a name":                         {"registry.example.com", nil, false},
		"a name that ends in localhost":  {"evil.localhost:5000", nil, false},
		"a name that looks like one":     {"127.0.0.1.example.com", nil, false},
		"loopback":                       {"127.0.0.1:5000", nil, true},
		"loopback by IPv6":               {"[::1]:5000", nil, true},
		"localhost":                      {"localhost:5000", nil, true},
		"a host that is listed":          {"registry.example.com:5000", []string{"registry.example.com"}, true},
		"a host listed with its port":    {"registry.example.com:5000", []string{"registry.example.com:5000"}, true},
		"a host listed with another one": {"registry.example.com:5001", []string{"registry.example.com:5000"}, false},
	} {
		if got := newHosts(Options{Insecure: tc.insecure}).plainAllowed(tc.host); got != tc.want {
			t.Errorf("%s: %v", title, got)
		}
	}
}

// notOneOf matches requests without one of the users.
func notOneOf(users ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		user, _, _ := r.BasicAuth()
		for _, u := range users {
			if u == user {
				return false
			}
		}
		return true
	}
}

func unauthorized(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("WWW-Authenticate", `Basic realm="shop"`)
	w.WriteHeader(http.StatusUnauthorized)
}

type oneKey struct{ user string }

func (k oneKey) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: k.user, Password: "hunter2"}, nil
}

// privateShop lets only alice in, at the ping and everywhere else.
func privateShop(t *testing.T) *shop {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, s.key.SignTag(s.repository, s.digest))
	inner := s.Server.Config.Handler
	s.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if notOneOf("alice")(r) {
			unauthorized(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	})
	return s
}

func TestClient_TellsNobodyWhatTheRegistryWouldNot(t *testing.T) {
	s := privateShop(t)
	c := New(Options{})
	look := func(kc authn.Keychain) (int, error) {
		found, err := s.look(t.Context(), c, kc)
		return len(found), err
	}
	if n, err := look(oneKey{user: "alice"}); n != 1 || err != nil {
		t.Fatalf("alice: %d, %v", n, err)
	}
	s.ResetCounts()
	if n, err := look(oneKey{user: "alice"}); n != 1 || err != nil || s.Requests() != 0 {
		t.Errorf("alice again: %d, %v, %d requests", n, err, s.Requests())
	}
	for title, kc := range map[string]authn.Keychain{"mallory": oneKey{user: "mallory"}, "nobody": nil} {
		var known *Error
		if n, err := look(kc); n != 0 || !errors.As(err, &known) || known.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d, %v", title, n, err)
		}
		if _, err := c.Resolve(t.Context(), s.ref(t, ":1"), kc); !errors.As(err, &known) || known.Status != http.StatusUnauthorized {
			t.Errorf("%s resolves: %v", title, err)
		}
	}
}

func TestClient_UsesTheKeychainOfItsOptions(t *testing.T) {
	s := privateShop(t)
	if digest, err := New(Options{Keychain: oneKey{user: "alice"}}).Resolve(t.Context(), s.ref(t, ":1"), nil); err != nil || digest != s.digest {
		t.Errorf("got %s, %v", digest, err)
	}
}

func TestClient_GivesCredentialsToNoOtherHost(t *testing.T) {
	var seen sync.Map
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.URL.Path, r.Header.Get("Authorization"))
		unauthorized(w, r)
	}))
	t.Cleanup(other.Close)
	s := privateShop(t)
	s.Override(testkit.PathContains("/blobs/"), redirect(other.URL+"/elsewhere"))
	_, err := s.look(t.Context(), New(Options{}), oneKey{user: "alice"})
	var known *Error
	if !errors.As(err, &known) || known.Status != http.StatusUnauthorized {
		t.Errorf("got %v", err)
	}
	if got, reached := seen.Load("/elsewhere"); !reached || got != "" {
		t.Errorf("the other host was sent %q (reached: %v)", got, reached)
	}
	if strings.Contains(fmt.Sprint(err), base64.StdEncoding.EncodeToString([]byte("alice:hunter2"))) || strings.Contains(fmt.Sprint(err), "hunter2") {
		t.Errorf("the error holds the password: %v", err)
	}
}

func TestClient_KeepsWhatItFoundAndForgetsAbsenceSoon(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	now := time.Now()
	c := New(Options{Now: func() time.Time { return now }})
	look := func() (found, requests int) {
		t.Helper()
		s.ResetCounts()
		got, err := s.look(t.Context(), c, nil)
		ok(t, err)
		return len(got), s.Requests()
	}
	type step struct{ found, requests int }
	var got []step
	take := func() { f, r := look(); got = append(got, step{f, r}) }
	take()
	take() // kept: no signature
	ok(t, s.key.SignTag(s.repository, s.digest))
	now = now.Add(limits.CacheNegativeTTL + time.Millisecond)
	take() // looked again
	now = now.Add(limits.CacheTTL - time.Millisecond)
	take() // kept: one signature
	target, err := name.NewTag(s.repository + ":" + testkit.SignatureTag(s.digest))
	ok(t, err)
	ok(t, remote.Delete(target))
	now = now.Add(2 * time.Millisecond)
	take() // the deletion is noticed
	want := []step{{0, 2}, {0, 0}, {1, 3}, {1, 0}, {0, 2}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(step{})); diff != "" {
		t.Error(diff)
	}
}

func TestClient_AsksOnceForManyAndFailsNoneForOne(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, s.key.SignTag(s.repository, s.digest))
	arrived, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	inner := s.Server.Config.Handler
	s.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/referrers/") {
			once.Do(func() { close(arrived) })
			<-release
		}
		inner.ServeHTTP(w, r)
	})
	s.ResetCounts()
	c := New(Options{})
	impatient, giveUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := s.look(impatient, c, nil)
		first <- err
	}()
	<-arrived
	const callers = 20
	// A caller that is told to wait has joined the flight, as the cache is empty.
	results := make(chan error, callers)
	for range callers {
		go func() {
			found, err := s.look(t.Context(), c, nil)
			if err == nil && len(found) != 1 {
				err = fmt.Errorf("%d signatures", len(found))
			}
			results <- err
		}()
	}
	giveUp()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that gave up got %v", err)
	}
	close(release)
	for range callers {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if s.Requests() != 3 {
		t.Errorf("%d requests: %v", s.Requests(), s.Counts())
	}
}

func withTransport(t http.RoundTripper) remote.Option { return remote.WithTransport(t) }

func withRoots(pool *x509.CertPool) *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
}

// Whoever reads that a header is too long has to know whose, and by which limit. It is not a
// registry that is down.
func TestClient_SaysThatAHeaderIsTooLong(t *testing.T) {
	const over = limits.RegistryHeaderBytes + 1<<10
	for title, c := range map[string]struct {
		lines, each int
		http2, long bool
	}{
		"a long line":            {1, over, false, true},
		"a long line in HTTP/2":  {1, over, true, true},
		"many lines":             {over / 32, 16, false, true},
		"many lines in HTTP/2":   {over / 32, 16, true, true},
		"as many as usual":       {20, 100, false, false},
		"and as usual in HTTP/2": {20, 100, true, false},
		"half of it":             {1, over / 2, false, false},
		"and half of it, HTTP/2": {1, over / 2, true, false},
	} {
		t.Run(title, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for range c.lines {
					w.Header().Add("Content-Security-Policy", strings.Repeat("x", c.each))
				}
				w.WriteHeader(http.StatusNotFound)
			}))
			server.EnableHTTP2 = c.http2
			server.StartTLS()
			t.Cleanup(server.Close)
			client := New(Options{Transport: server.Client().Transport.(*http.Transport)})
			for range limits.RegistryFailures + 1 {
				ref, err := images.Parse(strings.TrimPrefix(server.URL, "https://") + "/shop/web:v1")
				ok(t, err)
				_, err = client.Resolve(t.Context(), ref, nil)
				known := new(Error)
				if !errors.As(err, &known) || strings.Contains(err.Error(), "limits.RegistryHeaderBytes") != c.long || strings.Contains(known.Remedy(), "shorter header") != c.long || known.notFound() == c.long {
					t.Fatal(err)
				}
			}
		})
	}
}
