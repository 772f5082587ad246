// Package forge makes pull requests, through the APIs of GitHub, GitLab and Gitea. It reads
// no environment and no file; a token is sent to the one host that it is meant for, and
// stands in no error.
package forge

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Remote is where a repository is kept, as its URL says.
type Remote struct {
	// Host without a port and a user, such as github.com.
	Host string
	// Path of the repository there, such as shop/fleet, without a leading slash and .git.
	Path string
}

// ParseRemote reads the URL of a remote in one of the ways that Git takes:
// https://host/path, ssh://user@host/path and user@host:path. A folder is no such URL.
func ParseRemote(raw string) (Remote, error) {
	host, path := "", ""
	if strings.Contains(raw, "://") {
		u, err := url.Parse(raw)
		if err != nil {
			return Remote{}, fmt.Errorf("%s is no URL", Masked(raw))
		}
		switch u.Scheme {
		case "https", "http", "ssh", "git", "git+ssh", "ssh+git":
			host, path = u.Hostname(), u.Path
		default:
			return Remote{}, fmt.Errorf("%s has no host where pull requests could be made", Masked(raw))
		}
	} else if before, after, ok := strings.Cut(raw, ":"); ok && !strings.Contains(before, "/") {
		_, host, ok = cutLast(before, "@")
		if !ok {
			host = before
		}
		path = after
	}
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	if host == "" || !strings.Contains(path, "/") {
		return Remote{}, fmt.Errorf("%s does not name a host and a repository such as shop/fleet", Masked(raw))
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return Remote{}, fmt.Errorf("%s has the path %q, which is no repository's", Masked(raw), path)
		}
	}
	return Remote{Host: strings.ToLower(host), Path: path}, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

// Masked is a remote's URL without who logs in there, and with what.
func Masked(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return raw // user@host:path holds no password
	}
	authority, path, slash := strings.Cut(rest, "/")
	if _, host, has := cutLast(authority, "@"); has {
		authority = "***@" + host
	}
	// A query or fragment may hold a token too, and a remote needs none.
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	if slash {
		path = "/" + path
	}
	return scheme + "://" + authority + path
}

// Kind of a forge.
type Kind string

// The kinds that there are.
const (
	GitHub Kind = "GitHub"
	GitLab Kind = "GitLab"
	Gitea  Kind = "Gitea"
)

// known are the hosts that are one of the kinds without anybody saying so, and may be given
// its token.
var known = map[string]string{
	"github.com":   "https://api.github.com",
	"gitlab.com":   "https://gitlab.com/api/v4",
	"gitea.com":    "https://gitea.com/api/v1",
	"codeberg.org": "https://codeberg.org/api/v1",
}

// API is where a forge is asked.
type API struct {
	Kind Kind
	base *url.URL
}

// For is the API of a remote's host; ok is false where the host is not known, and has to
// be named as for ParseAPI.
func For(r Remote) (api API, ok bool) {
	base, ok := known[r.Host]
	if !ok {
		return API{}, false
	}
	api, err := ParseAPI(base)
	return api, err == nil
}

// ParseAPI reads the base of an API. Its path tells the kind: /api/v3 is GitHub's own, or
// none at api.github.com, /api/v4 GitLab's and /api/v1 Gitea's. Plain HTTP is for loopback.
func ParseAPI(raw string) (API, error) {
	u, err := url.Parse(strings.TrimRight(raw, "/"))
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return API{}, fmt.Errorf("%s is no base of an API, such as https://git.example.com/api/v4", Masked(raw))
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return API{}, fmt.Errorf("%s: a token goes over https only", Masked(raw))
	}
	switch {
	case u.Host == "api.github.com" && u.Path == "", strings.HasSuffix(u.Hostname(), ".ghe.com") && u.Path == "", strings.HasSuffix(u.Path, "/api/v3"):
		return API{GitHub, u}, nil
	case strings.HasSuffix(u.Path, "/api/v4"):
		return API{GitLab, u}, nil
	case strings.HasSuffix(u.Path, "/api/v1"):
		return API{Gitea, u}, nil
	}
	return API{}, fmt.Errorf("%s: it has to end with /api/v3 (GitHub), /api/v4 (GitLab) or /api/v1 (Gitea)", Masked(raw))
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
