package images_test

import (
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/images"
)

func TestParse_GivesARepositoryOneName(t *testing.T) {
	for written, want := range map[string]string{
		"registry.example.com:443/shop/app:1":  "registry.example.com/shop/app",
		"Registry.Example.com:443/shop/app:1":  "registry.example.com/shop/app",
		"registry.example.com:5443/shop/app:1": "registry.example.com:5443/shop/app",
		"registry-1.docker.io/library/nginx:1": "docker.io/library/nginx",
		"index.docker.io/library/nginx:1":      "docker.io/library/nginx",
		"docker.io:443/library/nginx:1":        "docker.io/library/nginx",
		"registry.hub.docker.com/nginx:1":      "docker.io/library/nginx",
		"Registry.Hub.Docker.com:443/shop/a:1": "docker.io/shop/a",
		"registry.hub.docker.com.evil.io/a:1":  "registry.hub.docker.com.evil.io/a",
		"hub.docker.com/shop/a:1":              "hub.docker.com/shop/a",
		"registry.hub.docker.com:5000/shop/a":  "registry.hub.docker.com:5000/shop/a",
		"docker.io/nginx:1":                    "docker.io/library/nginx",
		"nginx:1":                              "docker.io/library/nginx",
		"localhost:443/app:1":                  "localhost:443/app",
		"127.0.0.1:443/app:1":                  "127.0.0.1:443/app",
	} {
		ref, err := images.Parse(written)
		if err != nil || ref.Repository != want {
			t.Errorf("%s is %q (%v), want %q", written, ref.Repository, err, want)
		}
	}
}
