package gate

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestMatchRepository(t *testing.T) {
	for name, c := range map[string]struct {
		pattern, repository string
		want                bool
	}{
		"the very repository":                          {"registry.example.com/shop/web", "registry.example.com/shop/web", true},
		"another one":                                  {"registry.example.com/shop/web", "registry.example.com/shop/webs", false},
		"one level":                                    {"registry.example.com/shop/*", "registry.example.com/shop/web", true},
		"one level is not two":                         {"registry.example.com/shop/*", "registry.example.com/shop/web/api", false},
		"one level is not none":                        {"registry.example.com/shop/*", "registry.example.com/shop", false},
		"any level":                                    {"registry.example.com/shop/**", "registry.example.com/shop/web/api/v1", true},
		"any level, none included":                     {"registry.example.com/shop/**", "registry.example.com/shop", true},
		"any level in the middle":                      {"registry.example.com/**/web", "registry.example.com/a/b/web", true},
		"part of a segment":                            {"registry.example.com/shop-*/w*b", "registry.example.com/shop-eu/web", true},
		"a part that would overlap":                    {"registry.example.com/ab*ba", "registry.example.com/aba", false},
		"parts in order":                               {"registry.example.com/a*b*c", "registry.example.com/axcxb", false},
		"a shop beside the shop":                       {"registry.example.com/shop/**", "registry.example.com/shop-evil/web", false},
		"a host that starts like it":                   {"registry.example.com/**", "registry.example.com.evil.io/shop/web", false},
		"a host that ends like it":                     {"registry.example.com/**", "evil-registry.example.com/shop/web", false},
		"the host as a folder of another":              {"registry.example.com/**", "evil.io/registry.example.com/shop/web", false},
		"the host as a user of another":                {"registry.example.com/**", "registry.example.com@evil/shop/web", false},
		"the host in upper case":                       {"registry.example.com/**", "REGISTRY.example.com/shop/web", false},
		"the host with another port":                   {"registry.example.com/**", "registry.example.com:5000/shop/web", false},
		"the host with its port":                       {"registry.example.com:5000/**", "registry.example.com:5000/shop/web", true},
		"any host of a domain":                         {"*.example.com/**", "eu.example.com/shop/web", true},
		"the domain itself is not one of its hosts":    {"*.example.com/**", "example.com/shop/web", false},
		"a host two levels down":                       {"*.example.com/**", "a.b.example.com/shop/web", false},
		"a domain that ends like it":                   {"*.example.com/**", "registry.evilexample.com/shop/web", false},
		"a domain that starts like it":                 {"*.example.com/**", "registry.example.com.evil.io/web", false},
		"an empty label":                               {"*.example.com/**", ".example.com/web", false},
		"a dot is no wildcard":                         {"registry.example.com/**", "registryxexample.com/web", false},
		"no repository":                                {"registry.example.com/**", "", false},
		"a repository without a host":                  {"registry.example.com/**", "web", false},
		"an empty pattern":                             {"", "registry.example.com/web", false},
		"stars that must not swallow the last name":    {"registry.example.com/**/**/web", "registry.example.com/web", true},
		"a star after the stars has to have a segment": {"registry.example.com/**/*", "registry.example.com", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := matchRepository(c.pattern, c.repository); got != c.want {
				t.Errorf("%s against %s: %v", c.pattern, c.repository, got)
			}
		})
	}
}

// TestMatchRepository_CannotBeMadeToBacktrack counts comparisons: a glob that tries every
// way to spread the stars takes more than anyone can wait for.
func TestMatchRepository_CannotBeMadeToBacktrack(t *testing.T) {
	pattern := strings.Split(strings.Repeat("**/a/", 50)+"b", "/")
	path := strings.Split(strings.Repeat("a/", 200)+"a", "/")
	compared := 0
	matched := matchSegments(pattern, path, func(pattern, segment string) bool {
		compared++
		return matchSegment(pattern, segment)
	})
	if matched {
		t.Error("it matches, and does not end in b")
	}
	if compared > len(pattern)*len(path) {
		t.Errorf("%d comparisons for %d times %d segments", compared, len(pattern), len(path))
	}
	if matchRepository("r.io/"+strings.Repeat("*a", 200)+"b", "r.io/"+strings.Repeat("a", 5000)) {
		t.Error("it matches, and does not end in b")
	}
}

func TestValidateMatch(t *testing.T) {
	for name, c := range map[string]struct{ pattern, says string }{
		"a repository":                  {"registry.example.com/shop/web", ""},
		"a folder":                      {"registry.example.com/shop/**", ""},
		"all of a host":                 {"registry.example.com/**", ""},
		"all hosts of a domain":         {"*.example.com/**", ""},
		"a port":                        {"localhost:5000/shop/*", ""},
		"localhost":                     {"localhost/shop/*", ""},
		"an address":                    {"[::1]:5000/shop/*", ""},
		"Docker Hub's own":              {"docker.io/library/nginx", ""},
		"all of Docker Hub":             {"docker.io/**", ""},
		"nothing":                       {"", "empty"},
		"everything":                    {"**", "names no repository"},
		"everything, with a slash":      {"**/*", "written out"},
		"any host":                      {"*/shop/web", "written out"},
		"part of a host":                {"registry.*.com/web", "written out"},
		"a star within a label":         {"reg*.example.com/web", "written out"},
		"a whole top-level domain":      {"*.com/**", "written out"},
		"no host":                       {"shop/**", "not a registry host"},
		"no repository":                 {"registry.example.com", "names no repository"},
		"no repository after a slash":   {"registry.example.com/", "names no repository"},
		"a tag":                         {"registry.example.com/web:1", "without tag"},
		"a digest":                      {"registry.example.com/web@sha256:00", "without tag"},
		"a user":                        {"registry.example.com@evil.io/web", "without tag"},
		"a scheme":                      {"https://registry.example.com/web", "registry host"},
		"a space":                       {"registry.example.com/ web", "without tag"},
		"a host in upper case":          {"Registry.example.com/web", "lower case"},
		"a path in upper case":          {"registry.example.com/Web", "lower case"},
		"an empty segment":              {"registry.example.com//web", "empty path segment"},
		"a slash at the end":            {"registry.example.com/shop/", "empty path segment"},
		"stars within a segment":        {"registry.example.com/a**", "segment of its own"},
		"another kind of glob":          {"registry.example.com/{a,b}", "only wildcards"},
		"a regular expression":          {"registry.example.com/^web$", "only wildcards"},
		"a port that nobody writes":     {"registry.example.com:443/shop/**", "leave out :443"},
		"a port on loopback":            {"127.0.0.1:443/shop/**", ""},
		"a zero before the port":        {"registry.example.com:05000/shop/**", "not a registry host"},
		"a broken host":                 {"registry..example.com/web", "not a registry host"},
		"Docker Hub by its address":     {"index.docker.io/library/nginx", "docker.io"},
		"Docker Hub by a third address": {"registry.hub.docker.com/library/nginx", "docker.io"},
		"Docker Hub without an owner":   {"docker.io/nginx", "docker.io/library/nginx"},
	} {
		t.Run(name, func(t *testing.T) {
			err := ValidateMatch(c.pattern)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q: %v", c.pattern, err)
			}
		})
	}
}

func TestConfig_RuleForTakesTheFirst(t *testing.T) {
	c := Config{Images: []ImageRule{{Match: "r.io/a/b"}, {Match: "r.io/a/**", RequireDigest: true}, {Match: "r.io/**"}}}
	for repository, want := range map[string]string{"r.io/a/b": "r.io/a/b", "r.io/a/c": "r.io/a/**", "r.io/d": "r.io/**", "s.io/a": ""} {
		if rule, ok := c.RuleFor(repository); rule.Match != want || ok != (want != "") {
			t.Errorf("%s is matched by %q", repository, rule.Match)
		}
	}
}

// FuzzMatchRepository holds the matcher against a regular expression of the same glob.
func FuzzMatchRepository(f *testing.F) {
	for _, s := range [][2]string{
		{"r.io/**/a", "r.io/a"}, {"*.r.io/a*b/**", "x.r.io/ab/c"}, {"r.io/*", "r.io.evil/x"}, {"r.io/**/b/**", "r.io/b"}, {"r.io/**/**", "r.io/b"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, repository string) {
		got := matchRepository(pattern, repository)
		if ValidateMatch(pattern) != nil || strings.ContainsAny(repository, "\n") {
			return
		}
		if want := asRegexp(pattern).MatchString(repository); got != want {
			t.Fatalf("%q against %q: %v", pattern, repository, got)
		}
	})
}

func asRegexp(pattern string) *regexp.Regexp {
	host, rest, _ := strings.Cut(pattern, "/")
	domain, wildcard := strings.CutPrefix(host, "*.")
	expr := regexp.QuoteMeta(domain)
	if wildcard {
		expr = `[^./]+\.` + expr
	}
	expr += "/"
	segments := slices.CompactFunc(strings.Split(rest, "/"), func(a, b string) bool { return a == "**" && b == "**" })
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "**" && last && i > 0:
			expr = strings.TrimSuffix(expr, "/") + "(/[^/]*)*"
		case s == "**" && last:
			expr += ".*"
		case s == "**":
			expr += "([^/]*/)*"
		default:
			expr += strings.ReplaceAll(regexp.QuoteMeta(s), `\*`, "[^/]*")
			if !last {
				expr += "/"
			}
		}
	}
	return regexp.MustCompile("(?s)^" + expr + "$")
}
