package registry

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// PullSecretKeychain makes a keychain of image pull Secrets: the content of
// .dockerconfigjson, or of the older .dockercfg, of each. It finds credentials as the
// kubelet does, so that Sluice can read what the node can pull and nothing else:
//
//   - an entry names a host, host:port, or either with a path, with or without scheme
//     and /v1/ or /v2/; https://index.docker.io/v1/ is Docker Hub;
//   - * stands for any text within one part of a host name (*.example.com);
//   - the port has to be the same, and the path the beginning of the repository's;
//   - of several that match the most specific comes first, and of the same entry in
//     several Secrets the first one's; where one is refused, the next is tried.
//
// An entry whose name is no URL is passed by. An error names the Secret by its place in the
// list, from 0, and holds nothing of its content.
//
// go-containerregistry has a module for this, which quotes content in its errors and
// carries entries of one Secret over to the next.
func PullSecretKeychain(secrets [][]byte) (authn.Keychain, error) {
	keys := pullSecrets{}
	for i, raw := range secrets {
		auths, err := readDockerConfig(raw)
		if err != nil {
			return nil, fmt.Errorf("image pull secret %d: %w", i, err)
		}
		for entry, auth := range auths {
			if key, ok := entryKey(entry); ok {
				keys.add(key, auth)
			}
		}
	}
	// In descending order the longer of two entries that begin alike comes first, and a
	// host that is spelled out before a pattern.
	slices.Sort(keys.order)
	slices.Reverse(keys.order)
	return &keys, nil
}

type pullSecrets struct {
	order []string
	auths map[string][]authn.AuthConfig
}

func (p *pullSecrets) add(key string, auth authn.AuthConfig) {
	if p.auths == nil {
		p.auths = map[string][]authn.AuthConfig{}
	}
	if len(p.auths[key]) == 0 {
		p.order = append(p.order, key)
	}
	p.auths[key] = append(p.auths[key], auth)
}

// readDockerConfig tells the two formats apart by the key auths, at which the older one
// would have a registry of that name.
func readDockerConfig(raw []byte) (map[string]authn.AuthConfig, error) {
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &keys) != nil {
		return nil, fmt.Errorf("it is not a docker config: its content is not a JSON object")
	}
	target, text := any(&config), raw
	if _, ok := keys["auths"]; !ok {
		target = &config.Auths
	}
	// A message of the parser could quote a password.
	if json.Unmarshal(text, target) != nil {
		return nil, fmt.Errorf("it is not a docker config: an entry is not credentials in JSON")
	}
	return config.Auths, nil
}

// entryKey is host[:port][/path] of an entry.
func entryKey(entry string) (string, bool) {
	if !strings.HasPrefix(entry, "https://") && !strings.HasPrefix(entry, "http://") {
		entry = "https://" + entry
	}
	u, err := url.Parse(entry)
	if err != nil || u.Host == "" {
		return "", false
	}
	below := u.Path
	if strings.HasPrefix(below, "/v1/") || strings.HasPrefix(below, "/v2/") {
		below = below[len("/v1"):]
	}
	if below == "/" {
		below = ""
	}
	return u.Host + below, true
}

// Resolve implements authn.Keychain.
func (p *pullSecrets) Resolve(target authn.Resource) (authn.Authenticator, error) {
	for _, auth := range p.all(target) {
		return auth, nil
	}
	return authn.Anonymous, nil
}

// all that match, in the order in which they are to be tried.
func (p *pullSecrets) all(target authn.Resource) []authn.Authenticator {
	host, below, _ := strings.Cut(target.String(), "/")
	hub := host == name.DefaultRegistry
	if hub {
		host = "docker.io"
	}
	var found []authn.Authenticator
	add := func(key string) {
		for _, auth := range p.auths[key] {
			found = append(found, authn.FromConfig(auth))
		}
	}
	for _, key := range p.order {
		if matches(key, host, "/"+below) {
			add(key)
		}
	}
	if len(found) == 0 && hub {
		add(name.DefaultRegistry)
	}
	return found
}

func matches(key, host, below string) bool {
	pattern, prefix, hasPath := strings.Cut(key, "/")
	if hasPath && !strings.HasPrefix(below, "/"+prefix) {
		return false
	}
	wantParts, wantPort := hostParts(pattern)
	parts, port := hostParts(host)
	if port != wantPort || len(parts) != len(wantParts) {
		return false
	}
	for i, part := range parts {
		if ok, err := path.Match(wantParts[i], part); !ok || err != nil {
			return false
		}
	}
	return true
}

func hostParts(hostport string) (parts []string, port string) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		host, port = hostport, ""
	}
	return strings.Split(host, "."), port
}
