package registry

import (
	"sync"
	"time"
)

// fakeClock is a clock that stands still, and timers that go off when it is told to.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
	// waits has each timer as it is set.
	waits chan fakeTimer
}

type fakeTimer struct {
	length time.Duration
	off    chan time.Time
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), waits: make(chan fakeTimer, 64)}
}

func (f *fakeClock) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fakeClock) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fakeClock) timer(d time.Duration) (<-chan time.Time, func()) {
	t := fakeTimer{d, make(chan time.Time, 1)}
	f.waits <- t
	return t.off, func() {}
}

// elapse moves the clock on by the length of the next timer and sets it off.
func (f *fakeClock) elapse() time.Duration {
	t := <-f.waits
	f.advance(t.length)
	t.off <- f.Now()
	return t.length
}

// client has this clock.
func (f *fakeClock) client(options Options) *Client {
	options.Now = f.Now
	c := New(options)
	c.timer = f.timer
	return c
}
