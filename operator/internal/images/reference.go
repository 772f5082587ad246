// Package images finds every image that an object makes a node pull, and reads image
// references the way the node will. It is pure.
package images

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sluice-dev/sluice/operator/internal/digests"
)

// DefaultTag is the tag that a reference without tag and digest stands for.
const DefaultTag = "latest"

const dockerHub = "docker.io"

// The grammar of the container runtimes. go-containerregistry's own is wider: it lets
// "..", empty path segments, a trailing dot in the host and a zero before the port through,
// which would make one repository known by several names, only one of them matched by a
// Gate's rule.
var (
	host      = lazy(`^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]+\])(?::[1-9][0-9]{0,4})?$`)
	component = lazy(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$`)
	tagForm   = lazy(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
)

// lazy compiles an expression at its first use. Repetitions that are counted make large
// ones of these, and not every command reads references.
func lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Reference is an image reference taken apart.
type Reference struct {
	// Repository is registry/repository in full, such as docker.io/library/nginx, the
	// registry in lower case.
	Repository string
	// Tag as written; empty when none is, see TagToResolve.
	Tag string
	// Digest as "sha256:<hex>"; empty when none is written. Where there are both, the
	// digest is what is pulled.
	Digest string
}

// Pinned says that the reference names a digest.
func (r Reference) Pinned() bool { return r.Digest != "" }

// TagToResolve is the tag that has to be looked up: the one written, or DefaultTag
// where the reference is a bare name. It is empty for a pinned reference.
func (r Reference) TagToResolve() string {
	switch {
	case r.Pinned():
		return ""
	case r.Tag == "":
		return DefaultTag
	}
	return r.Tag
}

// String is the reference in full.
func (r Reference) String() string {
	s := r.Repository
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// Parse reads a reference. Errors say what is wrong with it in words for its author.
func Parse(ref string) (Reference, error) {
	if ref == "" {
		return Reference{}, fmt.Errorf("no image is named")
	}
	if id := digests.Hex(ref); !strings.Contains(id, "/") && digests.Valid(digests.Prefix+id) {
		// A runtime takes this for the ID of whatever image is on the node already.
		return Reference{}, fmt.Errorf("%q is the ID of an image on a node: name a registry and a repository", ref)
	}
	base, dig, pinned := strings.Cut(ref, "@")
	if pinned && !digests.Valid(dig) {
		return Reference{}, fmt.Errorf("%q: the part after @ has to be sha256: and 64 hexadecimal digits in lower case", ref)
	}
	written, tag := splitTag(base)
	if tag != "" && !tagForm().MatchString(tag) {
		return Reference{}, fmt.Errorf("%q: %q is not a tag", ref, tag)
	}
	if written == "" || strings.HasSuffix(base, ":") {
		return Reference{}, fmt.Errorf("%q names no repository or ends in a colon", ref)
	}
	repository, err := fullName(written)
	if err != nil {
		return Reference{}, fmt.Errorf("%q is not an image reference: %w", ref, err)
	}
	return Reference{Repository: repository, Tag: tag, Digest: dig}, nil
}

// splitTag takes the tag off. A colon before the last slash belongs to a port.
func splitTag(base string) (repository, tag string) {
	colon := strings.LastIndexByte(base, ':')
	if colon < 0 || colon < strings.LastIndexByte(base, '/') {
		return base, ""
	}
	return base[:colon], base[colon+1:]
}

// oneName gives a registry the name that rules have it by: without the port that HTTPS
// has anyway, and Docker Hub by one of its four names. On loopback the port stays, as it
// is what tells registries apart there, and plain HTTP has another.
func oneName(registry string) string {
	name, _ := strings.CutSuffix(registry, ":443")
	switch {
	case name == "registry-1.docker.io" || name == "index.docker.io" || name == "registry.hub.docker.com":
		return dockerHub
	case name == "localhost" || strings.HasPrefix(name, "127.") || strings.HasPrefix(name, "["):
		return registry
	}
	return name
}

func fullName(written string) (string, error) {
	first, rest, slash := strings.Cut(written, "/")
	if slash && (first == "localhost" || strings.ContainsAny(first, ".:")) {
		// DNS does not tell cases apart, and neither may a Gate's rule.
		written = oneName(strings.ToLower(first)) + "/" + rest
	}
	repo, err := name.NewRepository(written)
	if err != nil {
		return "", err
	}
	registry := repo.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = dockerHub
	}
	if !host().MatchString(registry) {
		return "", fmt.Errorf("%q is not a registry host", registry)
	}
	for _, c := range strings.Split(repo.RepositoryStr(), "/") {
		if !component().MatchString(c) {
			return "", fmt.Errorf("%q is not part of a repository name", c)
		}
	}
	return registry + "/" + repo.RepositoryStr(), nil
}
