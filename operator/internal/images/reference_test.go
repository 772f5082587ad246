package images

import (
	"strings"
	"testing"
)

var someDigest = "sha256:" + strings.Repeat("ab", 32)

func TestParse_ReadsAReferenceAsTheNodeWill(t *testing.T) {
	for name, tc := range map[string]struct {
		ref     string
		want    Reference
		resolve string
	}{
		"a bare name is Docker Hub's library, at latest": {
			ref: "nginx", want: Reference{Repository: "docker.io/library/nginx"}, resolve: "latest"},
		"a short name with tag": {
			ref: "nginx:1.27", want: Reference{Repository: "docker.io/library/nginx", Tag: "1.27"}, resolve: "1.27"},
		"a user's repository on Docker Hub": {
			ref: "shop/web", want: Reference{Repository: "docker.io/shop/web"}, resolve: "latest"},
		"Docker Hub by its older name": {
			ref: "index.docker.io/library/nginx:1", want: Reference{Repository: "docker.io/library/nginx", Tag: "1"}, resolve: "1"},
		"Docker Hub by name, library left out": {
			ref: "docker.io/nginx", want: Reference{Repository: "docker.io/library/nginx"}, resolve: "latest"},
		"a host with port, whose colon is no tag": {
			ref: "localhost:5000/shop/web", want: Reference{Repository: "localhost:5000/shop/web"}, resolve: "latest"},
		"what looks like a host with port, without a path, is a name with tag": {
			ref: "localhost:5000", want: Reference{Repository: "docker.io/library/localhost", Tag: "5000"}, resolve: "5000"},
		"an IPv6 host": {
			ref: "[::1]:5000/web:1", want: Reference{Repository: "[::1]:5000/web", Tag: "1"}, resolve: "1"},
		"a digest": {
			ref: "registry.example.com/shop/web@" + someDigest, want: Reference{Repository: "registry.example.com/shop/web", Digest: someDigest}},
		"tag and digest: the digest is pulled": {
			ref: "registry.example.com/shop/web:1@" + someDigest, want: Reference{Repository: "registry.example.com/shop/web", Tag: "1", Digest: someDigest}},
		"a host in capitals is the same host": {
			ref: "Registry.Example.com/shop/web:V1", want: Reference{Repository: "registry.example.com/shop/web", Tag: "V1"}, resolve: "V1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tc.ref)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if got.TagToResolve() != tc.resolve {
				t.Errorf("resolves tag %q, want %q", got.TagToResolve(), tc.resolve)
			}
			if again, err := Parse(got.String()); err != nil || again != got {
				t.Errorf("%q does not read back: %+v, %v", got.String(), again, err)
			}
		})
	}
}

func TestParse_RefusesWhatCouldMeanTwoThings(t *testing.T) {
	for name, ref := range map[string]string{
		"nothing":                                "",
		"a path that climbs into another team":   "registry.example.com/shop/../evil/web",
		"an empty path segment":                  "registry.example.com/shop//web",
		"a trailing slash":                       "registry.example.com/shop/",
		"a host with the root's dot":             "registry.example.com./shop/web",
		"a URL":                                  "https://registry.example.com/shop/web",
		"credentials before the host":            "user@registry.example.com/shop/web",
		"two digests":                            "web@" + someDigest + "@" + someDigest,
		"a short digest":                         "web@sha256:abcd",
		"a digest in capitals":                   "web@sha256:" + strings.Repeat("AB", 32),
		"a digest of another kind":               "web@sha512:" + strings.Repeat("ab", 64),
		"an empty digest":                        "web@",
		"an empty tag":                           "web:",
		"a tag that looks like an option":        "web:-x",
		"a tag that is too long":                 "web:" + strings.Repeat("a", 129),
		"a space":                                "web :1",
		"a line break":                           "web\n:1",
		"capitals in the repository":             "registry.example.com/Shop/web",
		"a letter that only looks Latin":         "registry.example.com/shop/wеb",
		"the ID of an image on the node":         strings.Repeat("ab", 32),
		"the ID of an image, written as digest":  "sha256:" + strings.Repeat("ab", 32),
		"a query":                                "registry.example.com/shop/web?x=1",
		"an escape":                              "registry.example.com/shop/web%2f1",
		"only a tag":                             ":1",
		"only a digest":                          "@" + someDigest,
		"a template that was not filled in":      "{{ .Values.image }}",
		"a name that starts with a dot":          ".web",
		"a name with three underscores":          "shop/a___b",
		"a repository of more than 255 letters":  "shop/" + strings.Repeat("a", 256),
		"a port that is none":                    "registry.example.com:http/shop/web",
		"a zero before HTTPS's own port":         "registry.example.com:0443/shop/web",
		"a zero before another port":             "registry.example.com:05000/shop/web",
		"a digest with trailing space":           "web@" + someDigest + " ",
		"a host that is a path to a parent":      "../web",
		"a zone that points at a link-local net": "[fe80::1%25eth0]/web",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Parse(ref); err == nil {
				t.Errorf("%q was read as %+v", ref, got)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"nginx", "a/b:c", "localhost:5000/x@" + someDigest, "A.b/c", "[::1]/x", "x:", "@", "a/../b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		got, err := Parse(ref)
		if err != nil {
			return
		}
		again, err := Parse(got.String())
		if err != nil || again != got {
			t.Errorf("%q gives %+v, which reads back as %+v, %v", ref, got, again, err)
		}
		if strings.Contains(got.Repository, "..") || strings.Contains(got.Repository, "//") || strings.ToLower(got.Repository) != got.Repository {
			t.Errorf("%q gives the repository %q", ref, got.Repository)
		}
		if got.Pinned() == (got.TagToResolve() != "") {
			t.Errorf("%q is pinned and has a tag to resolve, or neither", ref)
		}
	})
}
