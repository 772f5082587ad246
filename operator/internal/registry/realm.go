package registry

import (
	"net/netip"
	"net/url"

	"golang.org/x/net/publicsuffix"
)

const distrust = "do not trust this registry until its owner explains why"

// checkRealm decides whether the token server that a registry names may be asked, and
// whether it may be given the registry's credentials.
//
// Docker's client sends them to whatever host the registry names. That tells a registry's
// owner nothing new, who could ask for them by Basic just as well. But a proxy in front
// of another registry passes that one's answers on, so that the password for
// mirror.corp.example goes to auth.docker.io; and a realm in the local network makes us
// the attacker's hand there. So:
//
//   - HTTPS, or plain HTTP where the registry itself may be and is spoken to in it;
//   - no address in place of a name, and not this machine, unless the registry is there;
//   - link-local and metadata addresses only where Options.Addresses has them (the guard and
//     the dialer see to that);
//   - credentials only for the registry's own host, a host of the same registrable domain
//     (index.docker.io and auth.docker.io), its mirror, or one that Options.TokenHosts
//     lists. A token that takes no credentials may come from anywhere.
func (h hosts) checkRealm(realm *url.URL, registry, scheme string, credentials bool) error {
	switch {
	case realm.Host == "" || realm.User != nil || realm.Scheme != "https" && realm.Scheme != "http":
		return &refusedError{text: "the token server that it names is not a URL that can be asked", remedy: distrust}
	case realm.Scheme == "http" && (scheme != "http" || !h.plainAllowed(realm.Host)):
		return &refusedError{text: "it names a token server in plain HTTP", remedy: "serve tokens over HTTPS"}
	}
	if h.own(realm, registry) || h.tokenHosts[realm.Hostname()] || h.tokenHosts[realm.Host] {
		return nil
	}
	if _, err := netip.ParseAddr(realm.Hostname()); err == nil || loopback(realm.Host) {
		return &refusedError{text: "it names a token server by an address that is not its own", remedy: distrust}
	}
	if credentials && !sameSite(realm.Hostname(), hostname(registry)) {
		return &refusedError{
			text:   "it wants its credentials sent to a token server at another site",
			remedy: "have the registry name a token server of its own, or allow that host as a token server",
		}
	}
	return nil
}

// own says whether the realm is at the registry's own host, on any port, or at that of
// the mirror that stands for it.
func (h hosts) own(realm *url.URL, registry string) bool {
	if realm.Hostname() == hostname(registry) {
		return true
	}
	for _, known := range []string{registry, hostname(registry)} {
		if to, mirrored := h.dialTarget(known); mirrored && realm.Hostname() == hostname(to) {
			return true
		}
	}
	return false
}

func sameSite(a, b string) bool {
	siteOfA, err := publicsuffix.EffectiveTLDPlusOne(a)
	if err != nil {
		return false
	}
	siteOfB, err := publicsuffix.EffectiveTLDPlusOne(b)
	return err == nil && siteOfA == siteOfB
}
