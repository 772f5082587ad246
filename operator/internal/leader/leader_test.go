package leader

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	deadline = 10 * time.Second
	self     = "self"
)

// shelf keeps one Lease.
type shelf struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
	err    error
}

func (s *shelf) Identity() string { return self }
func (s *shelf) Describe() string { return "ops/lease" }

func (s *shelf) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &s.record, nil, s.err
}

func (s *shelf) Create(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if s.err == nil {
		s.record = r
	}
	return s.err
}

func (s *shelf) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return s.Create(ctx, r)
}

// world is a lock, a clock, and an API server behind the fence.
type world struct {
	*testing.T
	*Lock
	shelf *shelf
	clock time.Time
	lost  []error
	sent  []string
	fence http.RoundTripper
	url   string
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, shelf: &shelf{}, clock: time.Now()}
	w.Lock = &Lock{Interface: w.shelf, deadline: deadline, now: func() time.Time { return w.clock }, lost: func(err error) { w.lost = append(w.lost, err) }}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { w.sent = append(w.sent, r.Method) }))
	t.Cleanup(server.Close)
	w.fence, w.url = w.Fence(server.Client().Transport), server.URL
	return w
}

func (w *world) renew() {
	w.Helper()
	if err := w.Update(w.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: self}); err != nil {
		w.Fatal(err)
	}
}

// writes says whether a write is sent, and a read has to be in any case.
func (w *world) writes() bool {
	w.Helper()
	w.sent = nil
	body := &closed{Reader: strings.NewReader("{}")}
	for _, r := range []struct {
		method string
		body   io.Reader
	}{{http.MethodGet, nil}, {http.MethodPatch, body}} {
		request, err := http.NewRequestWithContext(w.Context(), r.method, w.url, r.body)
		if err != nil {
			w.Fatal(err)
		}
		response, err := w.fence.RoundTrip(request)
		if err == nil {
			err = response.Body.Close()
		}
		if err != nil && !errors.Is(err, errNotLeading) {
			w.Fatal(err)
		}
	}
	if !body.closed {
		w.Error("the body was left open")
	}
	switch got := strings.Join(w.sent, " "); got {
	case "GET":
		return false
	case "GET PATCH":
		return true
	default:
		w.Fatalf("sent: %q", got)
		return false
	}
}

type closed struct {
	io.Reader
	closed bool
}

func (c *closed) Close() error {
	c.closed = true
	return nil
}

func TestLock_LetsWriteOnlyWhileTheLeaseIsRenewed(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(w *world)
		want bool
	}{
		"just renewed":        {func(*world) {}, true},
		"before the deadline": {func(w *world) { w.clock = w.clock.Add(deadline - 1) }, true},
		"at the deadline":     {func(w *world) { w.clock = w.clock.Add(deadline) }, false},
		"renewed once more":   {func(w *world) { w.clock = w.clock.Add(deadline); w.renew() }, true},
		"a renewal that fails": {func(w *world) {
			w.clock, w.shelf.err = w.clock.Add(deadline), errors.New("unreachable")
			if err := w.Update(w.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: self}); !errors.Is(err, w.shelf.err) {
				w.Error(err)
			}
		}, false},
		"given back": {func(w *world) {
			if err := w.Update(w.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
				w.Error(err)
			}
		}, false},
		"not given back for an error": {func(w *world) {
			w.shelf.err = errors.New("unreachable")
			if err := w.Update(w.Context(), resourcelock.LeaderElectionRecord{}); !errors.Is(err, w.shelf.err) {
				w.Error(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if w.writes() {
				t.Error("written before it leads")
			}
			if err := w.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: self}); err != nil {
				t.Fatal(err)
			}
			tc.then(w)
			if got := w.writes(); got != tc.want {
				t.Errorf("writes: %t, want %t", got, tc.want)
			}
			if len(w.lost) > 0 {
				t.Errorf("lost: %v", w.lost)
			}
		})
	}
}

func TestLock_TellsOnceThatTheLeaseIsLost(t *testing.T) {
	w := newWorld(t)
	get := func() {
		t.Helper()
		if _, _, err := w.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.shelf.record.HolderIdentity = "other"
	get()
	if len(w.lost) > 0 {
		t.Errorf("what was never held is lost: %v", w.lost)
	}
	w.renew()
	get()
	w.shelf.record.HolderIdentity = "other"
	get()
	get()
	if w.writes() {
		t.Error("written while another leads")
	}
	if len(w.lost) != 1 || !errors.Is(w.lost[0], ErrLost) || !strings.Contains(w.lost[0].Error(), `ops/lease, which this one had, is held by "other"`) {
		t.Errorf("%v", w.lost)
	}
}

func TestNewLock_HasANameAndAnAccessOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		access := &rest.Config{Host: "https://127.0.0.1:1"}
		l, err := NewLock(access, "ops", "lease", deadline, nil)
		if err != nil {
			t.Fatal(err)
		}
		if access.Timeout != 0 || access.UserAgent != "" {
			t.Errorf("the access of others is changed: %+v", access)
		}
		if l.Describe() != "ops/lease" || l.Identity() == "" || seen[l.Identity()] {
			t.Errorf("%s: %s", l.Describe(), l.Identity())
		}
		seen[l.Identity()] = true
	}
}
