// Package leader keeps a replica that leads no longer from writing. Leader election alone
// does not: a process that was stopped, or whose machine was, finds out that another took
// the Lease only when it tries to renew it, and writes what it had begun until then.
package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// ErrLost is what a leader ends with that finds its Lease with another.
var ErrLost = errors.New("another replica leads")

// errNotLeading is why a request was not sent.
var errNotLeading = errors.New("not sent: this replica has not renewed its Lease in time, so that another may lead")

// Lock is the Lease that replicas compete for, and knows until when this one may write.
type Lock struct {
	resourcelock.Interface
	// deadline is how long after its last renewal this replica may write. What the Lease lasts
	// longer is for requests that are on their way.
	deadline time.Duration
	lost     func(error)
	now      func() time.Time
	// until is when this replica has to have renewed; nil while it does not lead.
	until atomic.Pointer[time.Time]
}

// NewLock makes the lock, with events about who leads. lost is called once a leader finds
// that another has the Lease; the error wraps ErrLost. deadline is the renew deadline of
// the leader election.
func NewLock(access *rest.Config, namespace, name string, deadline time.Duration, lost func(error)) (*Lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this replica: %w", err)
	}
	access = rest.AddUserAgent(rest.CopyConfig(access), "leader-election") // which changes what it is given
	access.Timeout = max(deadline/2, time.Second)                          // one request that hangs must not cost the Lease
	leases, err := coordinationv1client.NewForConfig(access)
	if err != nil {
		return nil, fmt.Errorf("client of the Lease: %w", err)
	}
	events, err := corev1client.NewForConfig(access)
	if err != nil {
		return nil, fmt.Errorf("client of the events about the Lease: %w", err)
	}
	identity := host + "_" + string(uuid.NewUUID())
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: events.Events("")})
	return &Lock{deadline: deadline, lost: lost, now: time.Now, Interface: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: leases,
		LockConfig: resourcelock.ResourceLockConfig{
			Identity:      identity,
			EventRecorder: broadcaster.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: identity}),
		},
	}}, nil
}

// Get implements resourcelock.Interface.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() && l.until.Swap(nil) != nil {
		l.lost(fmt.Errorf("%w: Lease %s, which this one had, is held by %q", ErrLost, l.Describe(), record.HolderIdentity))
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.hold(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.hold(record, func() error { return l.Interface.Update(ctx, record) })
}

// hold counts the time from before the Lease is written, since others count theirs from when
// they see it. Nothing more is sent once a Lease is about to be given back.
func (l *Lock) hold(record resourcelock.LeaderElectionRecord, write func() error) error {
	until := l.now().Add(l.deadline)
	if record.HolderIdentity != l.Identity() {
		l.until.Store(nil)
		return write()
	}
	if err := write(); err != nil {
		return err
	}
	l.until.Store(&until)
	return nil
}

// holds says whether this replica may write. Of the two clocks either may stand still or be
// set while a machine sleeps, so that both have to be before the end.
func (l *Lock) holds() bool {
	until, now := l.until.Load(), l.now()
	return until != nil && now.Before(*until) && now.Round(0).Before(until.Round(0))
}

// Fence is a transport that sends what writes only while this replica leads. It has to stand
// right before the connection: what waits for a rate limit may wait for longer than the
// Lease lasts.
func (l *Lock) Fence(next http.RoundTripper) http.RoundTripper { return fence{l, next} }

type fence struct {
	lock *Lock
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || f.lock.holds() {
		return f.next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close() // a transport does, whatever comes of the request
	}
	return nil, errNotLeading
}

// WrappedRoundTripper lets client-go reach the transport behind, to cancel requests there.
func (f fence) WrappedRoundTripper() http.RoundTripper { return f.next }
