package registry

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// hosts is the policy over where connections go and which may be plain HTTP.
type hosts struct {
	mirrors    map[string]string
	insecure   map[string]bool
	tokenHosts map[string]bool
}

func newHosts(o Options) hosts {
	return hosts{mirrors: maps.Clone(o.Mirrors), insecure: set(o.Insecure), tokenHosts: set(o.TokenHosts)}
}

func set(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

// dialTarget is the host:port that stands for a registry host, and whether a mirror
// does.
func (h hosts) dialTarget(host string) (string, bool) {
	if host == name.DefaultRegistry {
		host = "docker.io"
	}
	to, ok := h.mirrors[host]
	if !ok {
		return host, false
	}
	return to, true
}

// plainAllowed says whether requests to host, with or without port, may be plain HTTP.
func (h hosts) plainAllowed(host string) bool {
	if h.insecure[host] || h.insecure[hostname(host)] {
		return true
	}
	target, _ := h.dialTarget(host)
	return h.insecure[target] || h.insecure[hostname(target)] || loopback(target)
}

func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

func loopback(hostport string) bool {
	host := hostname(hostport)
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// dialer connects to mirrors in place of the registries they stand for. Names stay as
// they are, in TLS too.
func (h hosts) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: limits.RegistryCall, KeepAlive: 30 * time.Second, Control: refuseMetadata}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("dialling %q: %w", address, err)
		}
		for _, known := range []string{address, host} {
			if to, ok := h.dialTarget(known); ok {
				address = to
				break
			}
		}
		return d.DialContext(ctx, network, address)
	}
}

// proxy leaves mirrors out: they are dialled as configured.
func (h hosts) proxy(of func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(req *http.Request) (*url.URL, error) {
		if _, mirrored := h.dialTarget(req.URL.Host); mirrored || of == nil {
			return nil, nil
		}
		return of(req)
	}
}

// refuseMetadata runs after names were resolved and before the connection is made, so
// that no DNS answer and no spelling of an address gets around it.
func refuseMetadata(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("dialling %q: %w", address, err)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("dialling %q: %w", address, err)
	}
	return refuseAddress(addr)
}

var (
	nat64       = netip.MustParsePrefix("64:ff9b::/96")
	awsMetadata = netip.MustParseAddr("fd00:ec2::254")
)

func refuseAddress(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if addr.IsLinkLocalUnicast() || addr.IsLinkLocalMulticast() || addr == awsMetadata {
		return &refusedError{
			text:   "it leads to a link-local or metadata address, where no registry is",
			remedy: "do not trust this registry until its owner explains why",
		}
	}
	return nil
}

// guard is the last stop before the network: every request passes it, those of the login
// and of redirects included.
type guard struct {
	hosts hosts
	inner http.RoundTripper
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.check(req); err != nil {
		return nil, err
	}
	return g.inner.RoundTrip(req)
}

func (g *guard) check(req *http.Request) error {
	if addr, err := netip.ParseAddr(req.URL.Hostname()); err == nil {
		// The dialer looks again; it does not see the address behind a proxy.
		if err := refuseAddress(addr); err != nil {
			return err
		}
	}
	if err := checkRedirect(req); err != nil {
		return err
	}
	if req.URL.Scheme == "http" && !g.hosts.plainAllowed(req.URL.Host) {
		return notHTTPS()
	}
	return nil
}

func checkRedirect(req *http.Request) error {
	if req.Response == nil || req.Response.Request == nil {
		return nil
	}
	from, hops := req.Response.Request, 0
	for r := req; r.Response != nil && r.Response.Request != nil; r = r.Response.Request {
		hops++
	}
	if hops > limits.RegistryRedirects {
		return &limitError{name: "limits.RegistryRedirects", text: fmt.Sprintf("more than %d redirects", limits.RegistryRedirects)}
	}
	if from.URL.Scheme == "https" && req.URL.Scheme == "http" {
		return &refusedError{text: "it redirects from HTTPS to plain HTTP", remedy: "have the registry redirect to HTTPS"}
	}
	if loopback(req.URL.Host) && !loopback(from.URL.Host) {
		return &refusedError{
			text:   "it redirects to this machine itself",
			remedy: "do not trust this registry until its owner explains why",
		}
	}
	return nil
}

// newTransport keeps TLS settings and proxy of base and takes over dialling.
func newTransport(base *http.Transport, h hosts) http.RoundTripper {
	if base == nil {
		base = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			ForceAttemptHTTP2:   true,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: limits.RegistryCall,
		}
	}
	t := base.Clone()
	t.DialContext = h.dialer()
	t.Proxy = h.proxy(base.Proxy)
	t.DialTLSContext = nil
	// Sizes are bounded as they come over the wire.
	t.DisableCompression = true
	t.MaxResponseHeaderBytes = limits.RegistryHeaderBytes
	t.MaxIdleConnsPerHost = limits.RegistryConcurrency
	return &guard{hosts: h, inner: t}
}
