package registry

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
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
	// addresses may be dialled although they are link-local or of metadata.
	addresses []netip.Prefix
}

func newHosts(o Options) hosts {
	return hosts{mirrors: maps.Clone(o.Mirrors), insecure: set(o.Insecure), tokenHosts: set(o.TokenHosts), addresses: o.Addresses}
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

// thisMachine also knows the address that is none, which leads here too.
func thisMachine(hostport string) bool {
	addr, err := netip.ParseAddr(hostname(hostport))
	return loopback(hostport) || err == nil && addr.Unmap().IsUnspecified()
}

// dialer connects to mirrors in place of the registries they stand for. Names stay as
// they are, in TLS too.
func (h hosts) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: limits.RegistryCall, KeepAlive: 30 * time.Second, Control: h.refuseMetadata}
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
func (h hosts) refuseMetadata(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("dialling %q: %w", address, err)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("dialling %q: %w", address, err)
	}
	return h.refuseAddress(addr)
}

// carriers are IPv6 addresses that hold an IPv4 one, and at which byte.
var carriers = map[netip.Prefix]int{
	netip.MustParsePrefix("64:ff9b::/96"): 12, // NAT64
	netip.MustParsePrefix("::/96"):        12, // IPv4-compatible
	netip.MustParsePrefix("2002::/16"):    2,  // 6to4
}

// metadata has the addresses of metadata services that are not link-local.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"),      // Amazon's services of the machine, by IPv6
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google, by IPv6
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure's WireServer
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle
}

func (h hosts) refuseAddress(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	for carrier, at := range carriers {
		if b := addr.As16(); addr.Is6() && carrier.Contains(addr) && !addr.IsLoopback() {
			addr = netip.AddrFrom4([4]byte(b[at : at+4]))
			break
		}
	}
	if !addr.IsLinkLocalUnicast() && !addr.IsLinkLocalMulticast() && !within(metadata, addr) || within(h.addresses, addr) {
		return nil
	}
	return &refusedError{
		text:   "it leads to a link-local or metadata address, where no registry is",
		remedy: distrust + ", or allow the address with --registry-allow-address",
	}
}

func within(all []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// ParseAddresses reads IP addresses, and ranges of them in CIDR notation, for
// Options.Addresses.
func ParseAddresses(all []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range all {
		addr, err := netip.ParseAddr(text)
		prefix := netip.PrefixFrom(addr, addr.BitLen())
		if err != nil {
			prefix, err = netip.ParsePrefix(text)
		}
		if err != nil || addr.Zone() != "" || prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is no IP address, and no range of them in CIDR notation: write 169.254.20.10, or 169.254.20.0/24", text)
		}
		out = append(out, prefix)
	}
	return out, nil
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
	resp, err := g.inner.RoundTrip(req)
	if err != nil && headerTooLong(err) {
		return nil, &refusedError{
			text:   fmt.Sprintf("the header of its answer has more than %d bytes (limits.RegistryHeaderBytes)", limits.RegistryHeaderBytes),
			remedy: "have the registry, and what answers for it on the way, send a shorter header",
		}
	}
	return resp, err
}

// headerTooLong tells it by the texts of net/http, which has no errors of its own for it: that of
// HTTP/1.1, and those of HTTP/2 for many lines and for a long one.
func headerTooLong(err error) bool {
	return slices.ContainsFunc([]string{"server response headers exceeded", "response header list larger than advertised limit", "COMPRESSION_ERROR"}, func(text string) bool {
		return strings.Contains(err.Error(), text)
	})
}

func (g *guard) check(req *http.Request) error {
	if addr, err := netip.ParseAddr(req.URL.Hostname()); err == nil {
		// The dialer looks again; it does not see the address behind a proxy.
		if err := g.hosts.refuseAddress(addr); err != nil {
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
	if thisMachine(req.URL.Host) && !thisMachine(from.URL.Host) {
		return &refusedError{
			text:   "it redirects to this machine itself",
			remedy: distrust,
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
	t.MaxIdleConnsPerHost, t.MaxIdleConns = limits.RegistryConcurrency, limits.RegistryIdle
	return &guard{hosts: h, inner: t}
}
