package registry

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/operator/internal/bundle"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func packed(t *testing.T) *bundle.Packed {
	t.Helper()
	p, err := bundle.Pack(map[string]string{"main.rego": "package main\n\ndeny contains \"no\" if true\n", "p/more.rego": "package more\n"})
	ok(t, err)
	return p
}

// By the name of another registry, for which a mirror is dialled, and with a tag and without.
func TestClient_PushesABundleThatItThenReads(t *testing.T) {
	s, p := newShop(t, testkit.RegistryOptions{}), packed(t)
	c := New(Options{Mirrors: map[string]string{"registry.example.com": s.Host()}})
	for _, tag := range []string{"", "1.0"} {
		ok(t, c.PushBundle(t.Context(), "registry.example.com/policies/prod", tag, p, nil))
		got, err := New(Options{}).Bundle(t.Context(), s.Host()+"/policies/prod", p.Digest(), nil)
		ok(t, err)
		if diff := cmp.Diff(p.Content(), got); diff != "" {
			t.Errorf("(-pushed +read):\n%s", diff)
		}
	}
}

func TestClient_LogsInToPushABundle(t *testing.T) {
	s, tokens := guarded(t, testkit.TokenOptions{User: "alice", Password: "hunter2"})
	p, c := packed(t), New(Options{})
	ok(t, c.PushBundle(t.Context(), s.repository, "1", p, alice))
	if _, err := c.Bundle(t.Context(), s.repository, p.Digest(), alice); err != nil {
		t.Error(err)
	}
	asked := tokens.Requests()
	if len(asked) != 2 || !strings.HasSuffix(asked[1].Scope, ":push,pull") {
		t.Errorf("it asks for %+v", asked)
	}
	err := c.PushBundle(t.Context(), s.repository, "1", p, nil)
	if known := new(Error); !errors.As(err, &known) || !strings.Contains(err.Error(), "credentials that may push") && known.Op != opLogin {
		t.Errorf("without a login: %v", err)
	}
}

func TestClient_PushesNothingBySomebodyElsesTokenServer(t *testing.T) {
	s, tokens := guarded(t, testkit.TokenOptions{User: "alice", Password: "hunter2", Realm: "https://tokens.stranger.example/token"})
	err := New(Options{}).PushBundle(t.Context(), s.repository, "1", packed(t), alice)
	if known := new(Error); !errors.As(err, &known) || known.Op != opLogin || len(tokens.Requests()) != 0 {
		t.Errorf("%v, %d tokens asked for", err, len(tokens.Requests()))
	}
}

// What is wrong with the content for good is told apart from what a registry does wrong.
func TestClient_TellsABundleThatIsWrongFromARegistryThatIs(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	image, err := New(Options{}).Bundle(t.Context(), s.repository, s.digest, nil)
	if wrong := new(bundle.Error); !errors.As(err, &wrong) || image.Manifest != nil {
		t.Errorf("an image in place of a bundle: %v", err)
	}
	p, c := packed(t), New(Options{})
	ok(t, c.PushBundle(t.Context(), s.repository, "", p, nil))
	s.Override(testkit.PathContains("/blobs/"), testkit.Status(http.StatusNotFound))
	_, err = c.Bundle(t.Context(), s.repository, p.Digest(), nil)
	if known := new(Error); !errors.As(err, &known) || known.Op != opBundle || !known.notFound() {
		t.Errorf("a layer that is gone: %v", err)
	}
	if _, err := c.Bundle(t.Context(), s.repository, "latest", nil); err == nil {
		t.Error("a tag is taken for a digest")
	}
}
