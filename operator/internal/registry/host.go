package registry

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// host is what is known of one registry, over all repositories and accounts: how busy it
// is with us, and whether it is up.
//
// It is a circuit breaker of its own, as the one in common use (sony/gobreaker) reads the
// system's clock and takes no other, and does not say what it last failed of.
type host struct {
	// slots is held by each request that is under way.
	slots chan struct{}

	mu sync.Mutex
	// failures in a row.
	failures int
	cause    string
	// pausedUntil is set while the registry counts as down.
	pausedUntil time.Time
	probing     bool
	noReferrers bool
}

func newHost() *host { return &host{slots: make(chan struct{}, limits.RegistryConcurrency)} }

// outcome of a request, as far as it says something about the registry's health.
type outcome int

const (
	// unknown: the caller gave up, or we refused.
	unknown outcome = iota
	alive
	failed
)

// admit says whether a request may be made now. When the pause is over one request goes
// ahead of the others, to find out.
func (h *host) admit(now time.Time) (probe bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pausedUntil.IsZero() {
		return false, nil
	}
	if now.Before(h.pausedUntil) || h.probing {
		return false, &waitError{
			text:   fmt.Sprintf("it failed %d times in a row (limits.RegistryFailures), the last time because %s", limits.RegistryFailures, h.cause),
			remedy: fmt.Sprintf("check that the registry is up; it is asked again within %s (limits.RegistryPause)", limits.RegistryPause),
			after:  max(h.pausedUntil.Sub(now), time.Second),
		}
	}
	h.probing = true
	return true, nil
}

func (h *host) report(o outcome, probe bool, cause string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if probe {
		h.probing = false
	}
	switch {
	case o == alive:
		h.failures, h.pausedUntil = 0, time.Time{}
	case o == failed && !h.pausedUntil.IsZero() && !probe:
		// A straggler from before the pause; it must not make it longer.
	case o == failed:
		h.failures, h.cause = h.failures+1, cause
		if probe || h.failures >= limits.RegistryFailures {
			h.pausedUntil = now.Add(limits.RegistryPause)
		}
	}
}

// referrersAPI notes whether the registry was seen to have the API. A mark that is wrong,
// as where a registry gives the same answer for a repository that does not exist, costs
// requests and no evidence: the API is still asked where the other places do not hold
// enough.
func (h *host) referrersAPI(there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noReferrers = !there
}

func (h *host) lacksReferrers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.noReferrers
}

// account is what is known of one registry for one set of credentials: rate limits are
// kept by account, and one tenant's must not hold up another's.
type account struct {
	mu sync.Mutex
	// scheme is https or http; empty until there was an answer.
	scheme string
	// login that the registry asks for; nil until that is known.
	login *challenge
	// until is when the registry wants to be asked again, asked what it said.
	until time.Time
	asked *waitError
	// news is closed when until is put off.
	news chan struct{}
}

func newAccount() *account { return &account{news: make(chan struct{})} }

func (a *account) knownScheme() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.scheme
}

func (a *account) speaks(scheme string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scheme = scheme
}

func (a *account) knownLogin() *challenge {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.login
}

func (a *account) asks(c *challenge) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.login = c
}

// putOff keeps requests back until then.
func (a *account) putOff(until time.Time, asked *waitError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if until.Before(a.until) {
		return
	}
	a.until, a.asked = until, asked
	close(a.news)
	a.news = make(chan struct{})
}

// wait is how long there is to wait, what the registry said, and a channel that is
// closed when that changes.
func (a *account) wait(now time.Time) (time.Duration, *waitError, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.until.Sub(now), a.asked, a.news
}

// endsWithin says whether ctx ends before the wait is over.
func endsWithin(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= wait
}

// in is the same with the time that is left of it.
func (e *waitError) in(left time.Duration) *waitError {
	told := *e
	told.after = left
	return &told
}

// enter waits for a slot at the registry, and for as long as it asked to. The caller has
// to leave.
func (s *session) enter(ctx context.Context) (leave func(o outcome, cause string), err error) {
	for {
		select {
		case s.host.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		wait, asked, _ := s.account.wait(s.now())
		if wait <= 0 {
			probe, err := s.host.admit(s.now())
			if err != nil {
				<-s.host.slots
				return nil, err
			}
			return func(o outcome, cause string) {
				<-s.host.slots
				s.host.report(o, probe, cause, s.now())
			}, nil
		}
		<-s.host.slots
		if wait > limits.RegistryWait || endsWithin(ctx, wait) {
			// Better told at once than after the time has been spent.
			return nil, asked.in(wait)
		}
		if err := s.pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (s *session) pause(ctx context.Context, wait time.Duration) error {
	over, stop := s.timer(wait)
	defer stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// putOff reads from an answer that the registry wants to be left alone for some time, and
// keeps that for all who use the account; nil if it does not say so.
func (s *session) putOff(status int, header http.Header) *waitError {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return nil
	}
	wait, ok := retryAfter(header.Get("Retry-After"), s.now())
	if !ok {
		return nil
	}
	asked := &waitError{
		text:   fmt.Sprintf("the registry answered %d %s and asks to wait %s", status, http.StatusText(status), wait),
		remedy: "try again after that, or log in for a higher rate limit",
		status: status, after: wait,
	}
	s.account.putOff(s.now().Add(wait), asked)
	return asked
}

// retryAfter reads the header's two forms, seconds and a date.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return max(at.Sub(now).Round(time.Second), 0), true
}
