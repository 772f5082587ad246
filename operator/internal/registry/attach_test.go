package registry

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const summaryType = "https://slsa.dev/verification_summary/v1"

// attached is what the registry holds of a type afterwards.
func attached(t *testing.T, c *Client, s *shop, repository string) int {
	t.Helper()
	held, err := c.Evidence(t.Context(), repository, s.digest, gate.Want{Predicates: []string{summaryType}}, nil, alice)
	ok(t, err)
	return len(held.Attestations)
}

func TestClient_AttachesWhatItThenReads(t *testing.T) {
	for title, options := range map[string]testkit.RegistryOptions{"with the referrers API": {Referrers: true}, "without it": {}} {
		t.Run(title, func(t *testing.T) {
			s := newShop(t, options)
			bundle, err := s.key.Bundle(s.digest, summaryType, nil)
			ok(t, err)
			second, err := s.key.Bundle(s.digest, summaryType, map[string]any{"verificationResult": "PASSED"})
			ok(t, err)
			const elsewhere = "registry.example.com/shop/app"
			repository := strings.Replace(elsewhere, "shop/app", strings.TrimPrefix(s.repository, s.Host()+"/"), 1)
			// By the name of another registry, for which a mirror is dialled.
			c := New(Options{Mirrors: map[string]string{"registry.example.com": s.Host()}})
			ok(t, c.Attach(t.Context(), repository, s.digest, bundle, summaryType, nil))
			ok(t, New(Options{}).Attach(t.Context(), s.repository, s.digest, second, summaryType, nil))
			if n := attached(t, New(Options{}), s, s.repository); n != 2 {
				t.Errorf("%d are there", n)
			}
		})
	}
}

func TestClient_LogsInToAttach(t *testing.T) {
	s, tokens := guarded(t, testkit.TokenOptions{User: "alice", Password: "hunter2"})
	bundle, err := s.key.Bundle(s.digest, summaryType, nil)
	ok(t, err)
	c := New(Options{})
	ok(t, c.Attach(t.Context(), s.repository, s.digest, bundle, summaryType, alice))
	if n := attached(t, c, s, s.repository); n != 1 {
		t.Errorf("%d are there", n)
	}
	asked := tokens.Requests()
	if len(asked) != 2 || !strings.HasSuffix(asked[1].Scope, ":push,pull") {
		t.Errorf("it asks for %+v", asked)
	}
}

func TestClient_AttachesNothingBySomebodyElsesTokenServer(t *testing.T) {
	s, tokens := guarded(t, testkit.TokenOptions{User: "alice", Password: "hunter2", Realm: "https://tokens.stranger.example/token"})
	bundle, err := s.key.Bundle(s.digest, summaryType, nil)
	ok(t, err)
	err = New(Options{}).Attach(t.Context(), s.repository, s.digest, bundle, summaryType, alice)
	if known := new(Error); !errors.As(err, &known) || known.Op != opLogin || len(tokens.Requests()) != 0 {
		t.Errorf("%v, %d tokens asked for", err, len(tokens.Requests()))
	}
}

func TestClient_SaysWhyItCouldNotAttach(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	if err := New(Options{}).Attach(t.Context(), s.repository, "latest", nil, summaryType, nil); err == nil {
		t.Error("a tag is taken for a digest")
	}
	err := New(Options{}).Attach(t.Context(), s.repository, testkit.DigestOf("nothing"), []byte("{}"), summaryType, nil)
	if known := new(Error); !errors.As(err, &known) || !known.notFound() {
		t.Errorf("an image that is not there: %v", err)
	}
	s.Override(func(r *http.Request) bool { return r.Method == http.MethodPost }, testkit.Status(http.StatusForbidden))
	err = New(Options{}).Attach(t.Context(), s.repository, s.digest, []byte("{}"), summaryType, nil)
	if known := new(Error); !errors.As(err, &known) || known.Status != http.StatusForbidden {
		t.Errorf("a registry that may only be read: %v", err)
	}
}
