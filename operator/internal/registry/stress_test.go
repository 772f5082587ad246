package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func TestClient_WaitsAsLongAsTheRegistryAsks(t *testing.T) {
	for title, tc := range map[string]struct {
		status     int
		retryAfter string
		want       time.Duration
	}{
		"429 in seconds":    {http.StatusTooManyRequests, "2", 2 * time.Second},
		"503 in seconds":    {http.StatusServiceUnavailable, "5", 5 * time.Second},
		"429 with a date":   {http.StatusTooManyRequests, "Fri, 01 May 2026 12:00:03 GMT", 3 * time.Second},
		"as long as it may": {http.StatusTooManyRequests, fmt.Sprint(int(limits.RegistryWait / time.Second)), limits.RegistryWait},
	} {
		t.Run(title, func(t *testing.T) {
			s := newShop(t, testkit.RegistryOptions{Referrers: true})
			ok(t, s.key.SignBundle(s.repository, s.digest))
			clock := newFakeClock()
			c := clock.client(Options{})
			s.PutOff(1, tc.status, tc.retryAfter)
			s.ResetCounts()
			found := make(chan error, 1)
			go func() {
				signatures, err := s.look(t.Context(), c, nil)
				if err == nil && len(signatures) != 1 {
					err = fmt.Errorf("%d signatures", len(signatures))
				}
				found <- err
			}()
			if got := clock.elapse(); got != tc.want {
				t.Errorf("waited %s, want %s", got, tc.want)
			}
			if err := <-found; err != nil || s.Requests() != 5 {
				t.Errorf("%v after %v", err, s.Counts())
			}
		})
	}
}

func TestClient_SaysAtOnceWhenTheRegistryAsksForTooMuch(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	clock := newFakeClock()
	c := clock.client(Options{})
	s.PutOff(1, http.StatusTooManyRequests, "120")
	s.ResetCounts()
	want := s.repository + ": cannot look up tag 1: the registry answered 429 Too Many Requests and asks to wait 2m0s: try again after that, or log in for a higher rate limit"
	for i, left := range []time.Duration{120 * time.Second, 119 * time.Second} {
		_, err := c.Resolve(t.Context(), s.ref(t, ":1"), nil)
		var known *Error
		if !errors.As(err, &known) || err.Error() != want || known.Status != http.StatusTooManyRequests || known.RetryAfter != left {
			t.Errorf("time %d: %v, %+v", i, err, known)
		}
		clock.advance(time.Second)
	}
	if s.Requests() != 1 {
		t.Errorf("the registry was asked again: %v", s.Counts())
	}
	clock.advance(118 * time.Second)
	if digest, err := c.Resolve(t.Context(), s.ref(t, ":1"), nil); err != nil || digest != s.digest {
		t.Errorf("after the time: %s, %v", digest, err)
	}
}

func TestClient_TellsACallerInAHurryAtOnce(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	clock := newFakeClock()
	c := clock.client(Options{})
	s.PutOff(1, http.StatusTooManyRequests, "4")
	hurried, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	patient := make(chan error, 1)
	go func() {
		_, err := c.Resolve(t.Context(), s.ref(t, ":1"), nil)
		patient <- err
	}()
	timer := <-clock.waits
	_, err := c.Resolve(hurried, s.ref(t, ":1"), nil)
	var known *Error
	if !errors.As(err, &known) || known.RetryAfter != 4*time.Second || hurried.Err() != nil {
		t.Errorf("got %v, %v", err, hurried.Err())
	}
	clock.advance(timer.length)
	timer.off <- clock.Now()
	if err := <-patient; err != nil {
		t.Errorf("the patient one: %v", err)
	}
}

func TestClient_TriesAFewTimesAndNoMore(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	clock := newFakeClock()
	c := clock.client(Options{})
	s.PutOff(100, http.StatusTooManyRequests, "1")
	s.ResetCounts()
	done := make(chan error, 1)
	go func() {
		_, err := c.Resolve(t.Context(), s.ref(t, ":1"), nil)
		done <- err
	}()
	for range limits.RegistryRetries {
		clock.elapse()
	}
	var known *Error
	if err := <-done; !errors.As(err, &known) || known.Status != 429 || known.RetryAfter != time.Second || s.Requests() != limits.RegistryRetries+1 {
		t.Errorf("got %v after %v", err, s.Counts())
	}
}

// Rate limits are kept by account: what one tenant used up is not taken from another.
func TestClient_HoldsUpNobodyForAnothersLimit(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	c := newFakeClock().client(Options{})
	s.PutOff(1, http.StatusTooManyRequests, "60")
	if _, err := c.Resolve(t.Context(), s.ref(t, ":1"), oneKey{user: "greedy"}); err == nil {
		t.Error("no error")
	}
	if _, err := c.Resolve(t.Context(), s.ref(t, ":1"), oneKey{user: "modest"}); err != nil {
		t.Error(err)
	}
}

func TestRetryAfter_ReadsSecondsAndDates(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"0": 0, "7": 7 * time.Second, "Fri, 01 May 2026 12:01:00 GMT": time.Minute, "Fri, 01 May 2026 11:00:00 GMT": 0,
		"": -1, "-1": -1, "soon": -1, "1.5": -1, "99999999999999999999": -1,
	} {
		got, known := retryAfter(value, now)
		if known != (want >= 0) || known && got != want {
			t.Errorf("%q: %s, %v", value, got, known)
		}
	}
}

func TestClient_LeavesADownRegistryAloneAndThenTriesOnce(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	clock := newFakeClock()
	c := clock.client(Options{})
	resolve := func() error { _, err := c.Resolve(t.Context(), s.ref(t, ":1"), nil); return err }
	s.Override(nil, testkit.Status(http.StatusInternalServerError))
	for range limits.RegistryFailures {
		if err := resolve(); err == nil || !strings.Contains(err.Error(), "answered 500") {
			t.Fatalf("got %v", err)
		}
	}
	s.ResetCounts()
	want := s.repository + ": cannot look up tag 1: it failed 5 times in a row (limits.RegistryFailures), the last time because the registry answered 500 Internal Server Error: check that the registry is up; it is asked again within 10s (limits.RegistryPause)"
	err := resolve()
	var known *Error
	if err == nil || err.Error() != want || !errors.As(err, &known) || known.RetryAfter != limits.RegistryPause || s.Requests() != 0 {
		t.Errorf("got %v (%+v) after %v", err, known, s.Counts())
	}
	clock.advance(limits.RegistryPause)
	if err := resolve(); err == nil || s.Requests() != 1 {
		t.Errorf("the probe: %v after %v", err, s.Counts())
	}
	if err := resolve(); err == nil || s.Requests() != 1 {
		t.Errorf("after a probe that failed: %v after %v", err, s.Counts())
	}
	clock.advance(limits.RegistryPause)
	s.Restore()
	for range 2 {
		if err := resolve(); err != nil {
			t.Errorf("after it is back: %v", err)
		}
	}
}

func TestClient_CountsARefusedConnectionAsDown(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	s.Close()
	c := newFakeClock().client(Options{})
	var err error
	for range limits.RegistryFailures + 1 {
		_, err = c.Resolve(t.Context(), s.ref(t, ":1"), nil)
	}
	if err == nil || !strings.Contains(err.Error(), "the last time because the connection failed: connection refused") {
		t.Errorf("got %v", err)
	}
}

func TestHost_CountsOnlyWhatSaysThatItIsDown(t *testing.T) {
	now := time.Now()
	h := newHost()
	fail := func(n int) {
		for range n {
			h.report(failed, false, "x", now)
		}
	}
	open := func() bool { _, err := h.admit(now); return err != nil }
	fail(limits.RegistryFailures - 1)
	h.report(alive, false, "", now)
	fail(limits.RegistryFailures - 1)
	h.report(unknown, false, "", now)
	if open() {
		t.Error("failures that are not in a row close it")
	}
	fail(1)
	if !open() {
		t.Error("failures in a row do not close it")
	}
	now = now.Add(limits.RegistryPause)
	if probe, err := h.admit(now); !probe || err != nil {
		t.Errorf("the first after the pause: %v, %v", probe, err)
	}
	if !open() {
		t.Error("a second one goes with the probe")
	}
	h.report(unknown, true, "", now)
	if probe, err := h.admit(now); !probe || err != nil {
		t.Errorf("after a probe that was given up: %v, %v", probe, err)
	}
	h.report(failed, false, "a straggler", now)
	h.report(alive, true, "", now)
	if open() {
		t.Error("a probe that went well does not open it")
	}
}

func TestClient_KeepsWithinTheRegistrysShare(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	var mu sync.Mutex
	running, most := 0, 0
	full := make(chan struct{})
	s.Override(nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		running++
		most = max(most, running)
		if running == limits.RegistryConcurrency && most == running {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-full
		w.Header().Set("Docker-Content-Digest", s.digest)
		mu.Lock()
		running--
		mu.Unlock()
	}))
	c := New(Options{})
	var all sync.WaitGroup
	for i := range 4 * limits.RegistryConcurrency {
		all.Go(func() {
			if _, err := c.Resolve(t.Context(), s.ref(t, fmt.Sprintf(":%d", i)), nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most != limits.RegistryConcurrency {
		t.Errorf("%d requests at a time, want %d", most, limits.RegistryConcurrency)
	}
}
