package gate

import (
	"fmt"
	"regexp"
	"strings"
)

// RuleFor returns the first rule that matches the repository, as a firewall would.
func (c Config) RuleFor(repository string) (ImageRule, bool) {
	for _, r := range c.Images {
		if matchRepository(r.Match, repository) {
			return r, true
		}
	}
	return ImageRule{}, false
}

var (
	matchHostForm = regexp.MustCompile(`^(?:(?:\*\.)?[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]+\])(?::[1-9][0-9]{0,4})?$`)
	matchPathForm = regexp.MustCompile(`^[a-z0-9._*-]+$`)
)

// ValidateMatch says why a pattern cannot be used. The registry host must be named in
// full or as *.domain: a pattern such as "shop/**" would match a repository of that
// name on any host an attacker likes. A pattern that no repository can match is refused
// too: under unmatchedImages: Allow it would be an open door that looks like a lock.
func ValidateMatch(pattern string) error {
	host, rest, ok := strings.Cut(pattern, "/")
	name, _, _ := strings.Cut(host, ":")
	domain, wildcard := strings.CutPrefix(name, "*.")
	switch {
	case pattern == "":
		return fmt.Errorf("the pattern is empty: write a registry and a repository, such as registry.example.com/shop/**")
	case !ok || rest == "":
		return fmt.Errorf("%q names no repository: write a registry and a repository, such as registry.example.com/shop/**", pattern)
	case strings.ContainsAny(pattern, "@ \t\r\n") || strings.Contains(rest, ":"):
		return fmt.Errorf("%q: a pattern matches registry/repository, without tag or digest", pattern)
	case pattern != strings.ToLower(pattern):
		return fmt.Errorf("%q would match nothing: registries and repositories are compared in lower case", pattern)
	case strings.Contains(domain, "*") || wildcard && !strings.Contains(domain, "."):
		return fmt.Errorf("%q: the registry host has to be written out, or as *.example.com", pattern)
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		return fmt.Errorf("%q: %q is not a registry host: write it in full, such as docker.io/library/nginx", pattern, host)
	case !matchHostForm.MatchString(host):
		return fmt.Errorf("%q: %q is not a registry host", pattern, host)
	}
	return validatePath(pattern, host, strings.Split(rest, "/"))
}

func validatePath(pattern, host string, segments []string) error {
	for _, segment := range segments {
		switch {
		case segment == "":
			return fmt.Errorf("%q would match nothing: it has an empty path segment", pattern)
		case strings.Contains(segment, "**") && segment != "**":
			return fmt.Errorf("%q: ** has to be a path segment of its own", pattern)
		case !matchPathForm.MatchString(segment):
			return fmt.Errorf("%q would match nothing: %q is not part of a repository's name; the only wildcards are * and **", pattern, segment)
		}
	}
	switch {
	case host == "index.docker.io" || host == "registry-1.docker.io" || host == "registry.hub.docker.com":
		return fmt.Errorf("%q would match nothing: images of Docker Hub are compared as docker.io/…", pattern)
	case strings.HasSuffix(host, ":443") && host != "localhost:443" && !strings.HasPrefix(host, "127.") && !strings.HasPrefix(host, "["):
		return fmt.Errorf("%q would match nothing: images are compared without the port that HTTPS has anyway: leave out :443", pattern)
	case host == "docker.io" && len(segments) == 1 && segments[0] != "**":
		return fmt.Errorf("%q would match nothing: write docker.io/library/%s for an image of Docker Hub without an owner", pattern, segments[0])
	}
	return nil
}

// matchRepository matches registry/repository against a glob: * stands for any number
// of characters within one path segment, ** for any number of segments, none included.
// In the host *. stands for exactly one label.
func matchRepository(pattern, repository string) bool {
	patternHost, patternPath, ok := strings.Cut(pattern, "/")
	host, path, ok2 := strings.Cut(repository, "/")
	if !ok || !ok2 {
		return false
	}
	return matchHost(patternHost, host) && matchSegments(strings.Split(patternPath, "/"), strings.Split(path, "/"), matchSegment)
}

func matchHost(pattern, host string) bool {
	domain, wildcard := strings.CutPrefix(pattern, "*.")
	if !wildcard {
		return pattern == host
	}
	label, rest, ok := strings.Cut(host, ".")
	return ok && label != "" && rest == domain
}

// matchSegments keeps the one place where the last ** may still swallow a segment, so
// that it takes at most pattern times path comparisons and cannot be made to backtrack.
func matchSegments(pattern, path []string, match func(pattern, segment string) bool) bool {
	p, s, star, mark := 0, 0, -1, 0
	for s < len(path) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, mark = p, s
			p++
		case p < len(pattern) && match(pattern[p], path[s]):
			p++
			s++
		case star >= 0:
			mark++
			p, s = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

func matchSegment(pattern, segment string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == segment
	}
	if !strings.HasPrefix(segment, parts[0]) {
		return false
	}
	segment = segment[len(parts[0]):]
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(segment, part)
		if i < 0 {
			return false
		}
		segment = segment[i+len(part):]
	}
	return strings.HasSuffix(segment, last)
}
