package registry

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// much is how many turns are held for much evidence.
func (c *Client) much() int { return c.turns[1].now() }

// now is how many turns are held.
func (t *turns) now() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all
}

func TestInTurn_FewHoldMuchAtATime(t *testing.T) {
	c := New(Options{})
	dropped := 0
	drop := func() { dropped++ }
	ended, end := context.WithCancel(t.Context())
	end()
	var holders []func()
	for range limits.LargeDecisions {
		ctx, over := InTurn(t.Context(), "", 1)
		ok(t, c.take(ctx, limits.LargeEvidence, drop))
		ok(t, c.take(ctx, 1, drop))
		ok(t, c.take(ctx, limits.LargeEvidence, drop)) // it has its turn
		holders = append(holders, over)
	}
	late, lateOver := InTurn(ended, "", 1)
	ok(t, c.take(late, limits.LargeEvidence, drop)) // which is not much
	if err := c.take(late, 1, drop); err == nil || !strings.Contains(err.Error(), "limits.LargeDecisions") {
		t.Errorf("one more: %v", err)
	}
	ok(t, c.take(ended, 10*limits.LargeEvidence, drop)) // no decision of an object
	lateOver()                                          // gives nothing back that it does not have
	if err := c.take(late, 1, drop); err == nil {
		t.Error("one more, after it gave up")
	}
	holders[0]()
	holders[0]()
	late, lateOver = InTurn(t.Context(), "", 1)
	ok(t, c.take(late, 2*limits.LargeEvidence, drop))
	lateOver()
	holders[1]()
	if c.much() != 0 || dropped != 2 {
		t.Errorf("%d turns are not over, and %d had to wait", c.much(), dropped)
	}
}

// However many images of a decision are read side by side, it takes one turn, and gives it back.
func TestInTurn_ADecisionTakesOneTurn(t *testing.T) {
	c := New(Options{})
	for range 300 {
		var decisions sync.WaitGroup
		for range 4 * limits.LargeDecisions {
			decisions.Go(func() {
				ctx, over := InTurn(t.Context(), "", 8)
				defer over()
				var images sync.WaitGroup
				for i := range 8 {
					images.Go(func() {
						if i%2 == 0 {
							c.holds(ctx, limits.LargeEvidence+1)
						}
						if err := c.take(ctx, limits.LargeEvidence+1, func() {}); err != nil {
							t.Error(err)
						}
					})
				}
				images.Wait()
			})
		}
		decisions.Wait()
		if n := c.much(); n != 0 {
			t.Fatalf("%d turns are not over", n)
		}
	}
}

func TestInTurn_ImagesShareEvenly(t *testing.T) {
	for images, want := range map[int]int64{0: limits.EvidenceBytes, 1: limits.EvidenceBytes, 2: limits.EvidenceBytes / 2, 4: limits.EvidenceBytes / 4, limits.ImagesPerObject: 384 << 10} {
		ctx, _ := InTurn(t.Context(), "", images)
		if got := shareOf(ctx); got != want {
			t.Errorf("%d images: %d bytes each", images, got)
		}
	}
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	s.storeLarge(t, 5<<20, 8<<20, 9<<20)
	ctx, over := InTurn(t.Context(), "", 3)
	c := New(Options{})
	found, err := c.Evidence(ctx, s.repository, s.digest, gate.Want{Predicates: []string{provenance}}, nil, nil)
	ok(t, err)
	if why := reasons(found.Attestations); strings.Count(why, "have more than 16777216 bytes (limits.ObjectEvidenceBytes)") != 1 {
		t.Errorf("not read: %s", why)
	}
	if c.much() != 1 {
		t.Errorf("%d turns are held", c.much())
	}
	over()
	if c.much() != 0 {
		t.Error("the turn is not over")
	}
}

// What stands in annotations is held as well as what stands in blobs, and nobody has to push
// a large blob for it.
func TestInTurn_AnnotationsCount(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	long := strings.Repeat("A", limits.SignatureAnnotationBytes)
	annotations := map[string]string{signatureAnnotation: "c2ln", certificateAnnotation: long, timestampAnnotation: long, rekorAnnotation: long}
	s.pushAnnotated(t, testkit.SignatureTag(s.digest), "application/vnd.dev.cosign.simplesigning.v1+json", 20, annotations)
	s.pushAnnotated(t, testkit.AttestationTag(s.digest), envelopeType, 20, annotations)
	want := gate.Want{Signatures: true, Predicates: []string{provenance}}
	c := New(Options{})
	for images, c := range map[int]*Client{1: c, limits.ImagesPerObject: New(Options{})} {
		ctx, over := InTurn(t.Context(), "", images)
		found, err := c.Evidence(ctx, s.repository, s.digest, want, nil, nil)
		ok(t, err)
		var held int64
		for _, sig := range slices.Concat(found.Signatures, found.Attestations) {
			held += int64(len(sig.Certificate) + len(sig.Timestamp) + len(sig.RekorBundle))
		}
		if held > shareOf(ctx) || held == 0 {
			t.Errorf("one of %d images: %d bytes are held, of %d", images, held, shareOf(ctx))
		}
		if (c.much() == 1) != (held > limits.LargeEvidence) {
			t.Errorf("one of %d images: %d bytes are held, and %d turns", images, held, c.much())
		}
		over()
	}
}

// Who has to wait finds all the same. What memory has needs no turn.
func TestInTurn_WhoWaitedFindsTheSame(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	s.storeLarge(t, 5<<20)
	c := New(Options{})
	look := func(ctx context.Context) (int, error) {
		found, err := c.Evidence(ctx, s.repository, s.digest, gate.Want{Predicates: []string{provenance}}, nil, nil)
		if why := reasons(found.Attestations); why != "" {
			t.Errorf("not read: %s", why)
		}
		return len(found.Attestations), err
	}
	var holders []func()
	for range limits.LargeDecisions {
		ctx, over := InTurn(t.Context(), "", 1)
		ok(t, c.take(ctx, limits.LargeEvidence+1, func() {}))
		holders = append(holders, over)
	}
	short, end := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer end()
	early, earlyOver := InTurn(short, "", 1)
	if n, err := look(early); err == nil || !strings.Contains(err.Error(), "limits.LargeDecisions") {
		t.Errorf("%d are found out of turn: %v", n, err)
	}
	earlyOver()
	waiting, waitingOver := InTurn(t.Context(), "", 1)
	late := make(chan int)
	go func() {
		n, err := look(waiting)
		if err != nil {
			t.Error(err)
		}
		late <- n
	}()
	asks := func(t *turn) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.bytes > limits.LargeEvidence
	}
	for until := time.Now().Add(10 * time.Second); !asks(waiting.Value(turnKey{}).(*turn)) && time.Now().Before(until); {
		runtime.Gosched()
	}
	holders[0]()
	if n := <-late; n != 1 || c.much() != limits.LargeDecisions {
		t.Errorf("%d are found after it waited, in %d turns", n, c.much())
	}
	waitingOver()
	holders[1]()
	for range 2 {
		ctx, over := InTurn(t.Context(), "", 1)
		if n, err := look(ctx); n != 1 || err != nil {
			t.Errorf("%d are found, %v", n, err)
		}
		over()
	}
	if c.much() != 0 {
		t.Errorf("%d turns are not over", c.much())
	}
}

func TestInTurn_AnnotationsOfMemoryCountAndItsContentDoesNot(t *testing.T) {
	want := gate.Want{Signatures: true}
	for title, c := range map[string]struct {
		long  int
		turns int
	}{"long": {limits.SignatureAnnotationBytes, 1}, "short": {16, 0}} {
		s := newShop(t, testkit.RegistryOptions{Referrers: true})
		long := strings.Repeat("A", c.long)
		s.pushAnnotated(t, testkit.SignatureTag(s.digest), "application/vnd.dev.cosign.simplesigning.v1+json", 20,
			map[string]string{signatureAnnotation: "c2ln", certificateAnnotation: long, timestampAnnotation: long, rekorAnnotation: long})
		client := New(Options{})
		for range 2 {
			ctx, over := InTurn(t.Context(), "", 2)
			s.ResetCounts()
			for range 2 { // two images with as much
				found, err := client.Evidence(ctx, s.repository, s.digest, want, func(e Evidence) bool { return len(e.Signatures) > 0 }, nil)
				if err != nil || len(found.Signatures) != 20 || reasons(found.Signatures) != "" {
					t.Errorf("%s: %d, %v: %s", title, len(found.Signatures), err, reasons(found.Signatures))
				}
			}
			if client.much() != c.turns {
				t.Errorf("%s: %d turns after %d requests", title, client.much(), s.Requests())
			}
			over()
		}
		if n := s.Requests(); n != 0 {
			t.Errorf("%s: memory had it, and there were %d requests", title, n)
		}
	}
}
