package registry

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// turn is one decision's share of the memory that evidence may take in a process. Whoever
// may push can make the evidence of an image as large as it may be, and an object names
// many images: without it some dozen of them would end the process, and the gate with it.
type turn struct {
	owner string
	// share is how many bytes are read for one image.
	share int64

	mu    sync.Mutex
	bytes int64
	// holds are the turns that it has.
	holds []*turns
	// reading is how much is being read for it, some of which goes on when it is over.
	reading int
	ended   bool
	// entered ends by enters once it has its first turn.
	entered context.Context
	enters  context.CancelFunc
	// waits is held by the one who takes a turn for all, or waits for it.
	waits sync.Mutex
}

type turnKey struct{}

// InTurn makes what is read with the context count for one decision over so many images. They
// share limits.ObjectEvidenceBytes evenly. A decision that reads more than
// limits.LargeEvidence waits until fewer than limits.LargeDecisions others hold as much, and
// one that reads more than limits.SmallEvidence until fewer than limits.EvidenceDecisions do.
// Those of one owner, such as a namespace, hold half of that at most; "" stands for all that
// there are. over has to be called once nothing is held of what was read.
func InTurn(ctx context.Context, owner string, images int) (own context.Context, over func()) {
	t := &turn{owner: owner, share: min(limits.EvidenceBytes, limits.ObjectEvidenceBytes/int64(max(images, 1)))}
	t.entered, t.enters = context.WithCancel(context.Background())
	return context.WithValue(ctx, turnKey{}, t), t.over
}

func (t *turn) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.leave()
}

// leave gives back what it has once nobody reads for it. The caller holds mu.
func (t *turn) leave() {
	if !t.ended || t.reading > 0 {
		return
	}
	for _, of := range t.holds {
		of.leave(t.owner)
	}
	t.holds = nil
}

// errOver says that nothing is begun for a decision that is over.
var errOver = fmt.Errorf("the decision is over: %w", context.Canceled)

// isOver says whether the context's own decision, or its time, is over.
func isOver(ctx context.Context) bool {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return ctx.Err() != nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended || ctx.Err() != nil
}

// begin keeps the turn of the context, if it has one, for as long as something is being read
// for it: that goes on when the decision has run out of time, and is held as long. The caller
// has to call done. Once the decision is over nothing is begun for it.
func begin(ctx context.Context) (done func(), err error) {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return func() {}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, errOver
	}
	t.reading++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.reading--
		t.leave()
	}, nil
}

// ownerOf is whose decision it is, "" where that does not matter.
func ownerOf(ctx context.Context) string {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok {
		return t.owner
	}
	return ""
}

// hasTurn ends once the context's decision has a turn for evidence.
func hasTurn(ctx context.Context) context.Context {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok {
		return t.entered
	}
	return context.Background()
}

// shareOf is the budget of one image.
func shareOf(ctx context.Context) int64 {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok {
		return t.share
	}
	return limits.EvidenceBytes
}

// take notes bytes that are about to be held, and waits for their turn. drop is called
// before it waits, for what is held of them already: those who wait are many. Where their
// turn does not come before ctx ends it is an error.
func (c *Client) take(ctx context.Context, bytes int64, drop func()) error {
	if c.holds(ctx, bytes) {
		return nil
	}
	drop()
	t, _ := ctx.Value(turnKey{}).(*turn)
	// What else the decision wants to read waits for the same turn.
	t.waits.Lock()
	defer t.waits.Unlock()
	// Who has a turn for much has one for some: those who wait for the first hold up nobody
	// whom they wait for.
	for needs := t.notes(c.turns, 0); needs != nil; needs = t.notes(c.turns, 0) {
		if !needs.wait(ctx, t.owner) || !t.enter(needs) {
			return &waitError{
				text:   "it holds much evidence, and others that hold as much are looked at (" + needs.name + ")",
				remedy: "try again; remove from the repository what nobody needs",
			}
		}
	}
	return nil
}

// holds notes bytes as take does, and says whether they can be held at once: because they are
// few, or it is the decision's turn, or it is nobody else's.
func (c *Client) holds(ctx context.Context, bytes int64) bool {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok || t.notes(c.turns, bytes) == nil {
		return true
	}
	if !t.waits.TryLock() {
		return false // someone waits for the turn of all, and it takes one alone
	}
	defer t.waits.Unlock()
	for needs := t.notes(c.turns, 0); needs != nil; needs = t.notes(c.turns, 0) {
		if !needs.try(t.owner) || !t.enter(needs) {
			return false
		}
	}
	return true
}

// notes so many more bytes, and says of which turns it needs one for them; nil for none that
// it does not have.
func (t *turn) notes(of []*turns, more int64) *turns {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes += more
	for _, needs := range of {
		if t.bytes > needs.above && !slices.Contains(t.holds, needs) {
			return needs
		}
	}
	return nil
}

// enter keeps a turn that was just taken, unless the decision is over. The caller holds waits.
func (t *turn) enter(of *turns) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds = append(t.holds, of)
	t.enters()
	t.leave()
	return !t.ended
}
