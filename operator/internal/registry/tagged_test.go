package registry

import (
	"net/http"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func TestClient_TellsWhatATagBesideADigestStandsFor(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	clock := newFakeClock()
	c := clock.client(Options{})
	pinned := "@" + testkit.DigestOf("another")
	s.ResetCounts()
	tagged := func(suffix string) (string, int) {
		t.Helper()
		before := s.Requests()
		digest, err := c.Tagged(t.Context(), s.ref(t, suffix), nil)
		ok(t, err)
		return digest, s.Requests() - before
	}
	for _, tc := range []struct {
		suffix, want string
		requests     int
	}{{":1" + pinned, s.digest, 1}, {":1" + pinned, s.digest, 0}, {pinned, "", 0}, {":2" + pinned, "", 1}, {":2" + pinned, "", 0}} {
		if got, n := tagged(tc.suffix); got != tc.want || n != tc.requests {
			t.Errorf("%s: %q after %d requests", tc.suffix, got, n)
		}
	}
	moved, err := testkit.PushImage(s.repository+":1", "moved")
	ok(t, err)
	clock.advance(limits.CacheTTL)
	if got, n := tagged(":1" + pinned); got != moved || n == 0 {
		t.Errorf("moved: %q after %d requests", got, n)
	}
	s.Override(nil, testkit.Status(http.StatusInternalServerError))
	if got, err := c.Tagged(t.Context(), s.ref(t, ":3"+pinned), nil); err == nil || got != "" {
		t.Errorf("a registry that fails: %q, %v", got, err)
	}
}

// A registry that fails now and then must not make a verdict warn now and then: what was known
// last is told until it is too old, or the registry no longer lets us see it.
func TestClient_TellsWhatATagStoodForWhileItCannotBeLookedUp(t *testing.T) {
	for title, tc := range map[string]struct {
		answer http.Handler
		after  time.Duration
		told   bool
	}{
		"it fails":                  {testkit.Status(http.StatusInternalServerError), limits.CacheTTL, true},
		"it asks to wait":           {http.HandlerFunc(tooManyRequests), limits.CacheTTL, true},
		"it fails for long":         {testkit.Status(http.StatusInternalServerError), limits.TagTTL - 1, true},
		"it fails for too long":     {testkit.Status(http.StatusInternalServerError), limits.TagTTL, false},
		"it refuses":                {testkit.Status(http.StatusForbidden), limits.CacheTTL, false},
		"it wants to know who asks": {testkit.Status(http.StatusUnauthorized), limits.CacheTTL, false},
	} {
		t.Run(title, func(t *testing.T) {
			s := newShop(t, testkit.RegistryOptions{})
			clock := newFakeClock()
			c := clock.client(Options{})
			ref := s.ref(t, ":1@"+testkit.DigestOf("another"))
			if got, err := c.Tagged(t.Context(), ref, nil); err != nil || got != s.digest {
				t.Fatalf("%q, %v", got, err)
			}
			clock.advance(tc.after)
			s.Override(nil, tc.answer)
			for range 2 {
				if got, err := c.Tagged(t.Context(), ref, nil); tc.told != (err == nil && got == s.digest) || !tc.told && got != "" {
					t.Errorf("%q, %v", got, err)
				}
			}
			s.Restore()
			_, err := testkit.PushImage(s.repository+":1", "moved")
			ok(t, err)
			clock.advance(limits.RegistryMemory)
			if got, err := c.Tagged(t.Context(), ref, nil); err != nil || got == s.digest || got == "" {
				t.Errorf("moved: %q, %v", got, err)
			}
		})
	}
}

// What a registry let us see before it refused is not told when it fails after that.
func TestClient_TellsNothingOfATagOnceItWasRefused(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		s := newShop(t, testkit.RegistryOptions{})
		clock := newFakeClock()
		c := clock.client(Options{})
		ref := s.ref(t, ":1@"+testkit.DigestOf("another"))
		if got, err := c.Tagged(t.Context(), ref, nil); err != nil || got != s.digest {
			t.Fatalf("%q, %v", got, err)
		}
		for _, then := range []int{status, http.StatusInternalServerError} {
			clock.advance(limits.CacheTTL)
			s.Override(nil, testkit.Status(then))
			if got, err := c.Tagged(t.Context(), ref, nil); err == nil || got != "" {
				t.Errorf("%d, and then %d: %q, %v", status, then, got, err)
			}
			s.Restore()
		}
		clock.advance(limits.RegistryMemory)
		if got, err := c.Tagged(t.Context(), ref, nil); err != nil || got != s.digest {
			t.Errorf("%d, and then it is seen again: %q, %v", status, got, err)
		}
	}
}
