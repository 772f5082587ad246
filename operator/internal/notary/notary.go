package notary

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/sluice-dev/sluice/operator/internal/attest"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Keys finds keys that are not in the cluster.
type Keys interface {
	// Signer signs with a key in a key management service.
	Signer(ctx context.Context, uri string) (*attest.Signer, error)
}

// Key is what signs: PEM with its password, or a URI.
type Key struct {
	// ID stands for all of it, and tells of none. Another key has another.
	ID             string
	Text, Password []byte
	KMS            string
}

// Order asks for evidence.
type Order struct {
	Matter
	// Gate that has it written, for metrics.
	Gate       string
	Exemptions []evidence.Exemption
	Key        Key
	// Credentials stands for what the registry is asked with, as far as that is known: with
	// others, what failed is tried again at once, and what is said of that failure is not told.
	Credentials string
	// Keychain is asked for once it is needed; a nil one means no credentials.
	Keychain func(context.Context) (authn.Keychain, error)
}

// id is the same for all that asks for the same, with whatever credentials.
func (o Order) id() string {
	raw, err := json.Marshal([]any{o.Matter, o.Key.ID})
	if err != nil {
		panic("notary: text without JSON: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Standing is how far an order is.
type Standing int

// The standings.
const (
	// Unknown: nobody looked yet.
	Unknown Standing = iota
	// Pending: it is being looked for, or written.
	Pending
	// Absent: such evidence is not there.
	Absent
	// Present: such evidence is there.
	Present
	// Failed: it could not be looked for, or not be written.
	Failed
)

// State of an order.
type State struct {
	Standing Standing
	// Err is why it failed; it holds no secrets. Again is when it may be tried again.
	Err   error
	Again time.Time
}

// Results of an order, as they are counted.
const (
	ResultWritten = "written"
	ResultPresent = "present"
	ResultFailed  = "failed"
)

// Options of a Notary; all are required.
type Options struct {
	Registry Registry
	Keys     Keys
	Now      func() time.Time
	// Count is told of each order that ended, by Gate and result.
	Count func(gate, result string)
}

// Notary looks for evidence and writes what is not there, in the background, some at a time.
// Orders for the same evidence are one. It is safe for concurrent use.
type Notary struct {
	options  Options
	verifier *signature.Check
	signers  *cache.LRUExpireCache

	mu      sync.Mutex
	orders  *cache.LRUExpireCache
	queue   []func()
	running int
}

type clock func() time.Time

func (c clock) Now() time.Time { return c() }

// entry is what is remembered of an order. It is held by Notary.mu.
type entry struct {
	// state is never Failed: that is each one's own, by its credentials.
	state State
	// failures since it began, by Order.Credentials: they end when the evidence is there.
	failures map[string]failure
	// write says that the run under way writes.
	write bool
	// wake are those who are told when the run ends, each once.
	wake map[string]func()
}

// failure is how an order failed last, and how often in a row.
type failure struct {
	state State
	times int
}

// New makes a Notary.
func New(o Options) *Notary {
	return &Notary{
		options: o, verifier: signature.New(),
		signers: cache.NewLRUExpireCacheWithClock(limits.Signers, clock(o.Now)),
		orders:  cache.NewLRUExpireCacheWithClock(limits.Attestations, clock(o.Now)),
	}
}

// Look says how an order stands, and starts to find out where that is not known: whether
// the evidence is there already. wake is called once it is known; callers of the same name
// replace each other.
func (n *Notary) Look(ctx context.Context, o Order, name string, wake func()) State {
	return n.start(ctx, o, false, name, wake)
}

// Write has the evidence written unless it is there. What failed before is not tried again
// before State.Again.
func (n *Notary) Write(ctx context.Context, o Order, name string, wake func()) State {
	return n.start(ctx, o, true, name, wake)
}

func (n *Notary) start(ctx context.Context, o Order, write bool, name string, wake func()) State {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := o.id()
	kept, ok := n.orders.Get(id)
	if !ok {
		kept = &entry{wake: map[string]func(){}, failures: map[string]failure{}}
		n.orders.Add(id, kept, limits.AttestationTTL)
	}
	e := kept.(*entry)
	switch {
	case e.state.Standing == Pending:
		e.wake[name] = wake
		return e.state
	case e.state.Standing == Present:
		return e.state
	}
	if f := e.failures[o.Credentials].state; f.Standing == Failed && n.options.Now().Before(f.Again) {
		return f
	}
	if e.state.Standing == Absent && !write {
		return e.state
	}
	if len(n.queue) >= limits.AttestationsWaiting {
		return State{Standing: Failed, Again: n.options.Now().Add(limits.AttestationPause),
			Err: fmt.Errorf("%d attestations wait for their turn (limits.AttestationsWaiting)", len(n.queue))}
	}
	e.state, e.write = State{Standing: Pending}, write
	e.wake[name] = wake
	// The reconcile that asks does not wait, and its end is not the end of this.
	ctx = context.WithoutCancel(ctx)
	n.queue = append(n.queue, func() { n.run(ctx, o, e) })
	if n.running < limits.AttestationsAtOnce {
		n.running++
		go n.drain()
	}
	return e.state
}

// drain runs what waits, and ends when nothing does.
func (n *Notary) drain() {
	for {
		n.mu.Lock()
		if len(n.queue) == 0 {
			n.queue = nil
			n.running--
			n.mu.Unlock()
			return
		}
		next := n.queue[0]
		n.queue = n.queue[1:]
		n.mu.Unlock()
		next()
	}
}

func (n *Notary) run(ctx context.Context, o Order, e *entry) {
	ctx, cancel := context.WithTimeout(ctx, limits.Attestation)
	defer cancel()
	standing, result, err := n.attend(ctx, o, e.write)
	if result != "" {
		n.options.Count(o.Gate, result)
	}
	n.mu.Lock()
	e.state = State{Standing: standing}
	switch standing {
	case Present:
		clear(e.failures)
	case Failed:
		e.state = State{}
		e.failed(o.Credentials, err, n.options.Now())
	}
	told := e.wake
	e.wake = map[string]func(){}
	n.mu.Unlock()
	for _, wake := range told {
		wake()
	}
}

// failed notes a failure. That it was looked for in between is no success, or what cannot be
// written would be tried again after the shortest pause for ever.
func (e *entry) failed(credentials string, err error, now time.Time) {
	before, known := e.failures[credentials]
	if !known && len(e.failures) >= limits.AttestationFailures {
		for oldOne := range e.failures {
			delete(e.failures, oldOne)
			break
		}
	}
	times := before.times
	e.failures[credentials] = failure{State{Standing: Failed, Err: err, Again: now.Add(pause(times))}, times + 1}
}

// pause after so many failures in a row.
func pause(failures int) time.Duration {
	return min(limits.AttestationPause<<min(failures, 10), limits.AttestationPauseMax)
}
