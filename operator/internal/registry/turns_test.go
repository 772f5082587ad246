package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func TestTurns_AnOwnerHoldsHalfAtMost(t *testing.T) {
	all := newTurns(4, 0, "")
	takes := func(owner string) bool { return all.try(owner) }
	got := fmt.Sprint(takes("a"), takes("a"), takes("a"), takes("b"), takes(""), takes(""))
	if got != "true true false true true false" {
		t.Error(got)
	}
	all.leave("a")
	if got := fmt.Sprint(takes("a"), takes("b")); got != "true false" {
		t.Error(got)
	}
	for range 4 {
		all.leave("") // what is nobody's has all
		if !takes("") {
			t.Error("none of four")
		}
	}
}

// Who has a hundred that wait goes not before who has one.
func TestTurns_TheNextIsWhoWentWithoutTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(2, 0, "")
		order := make(chan string, 16)
		come := func(ctx context.Context, owner string) {
			go func() {
				if all.wait(ctx, owner) {
					order <- owner
				} else {
					order <- "not " + owner
				}
			}()
			synctest.Wait()
		}
		ended, end := context.WithCancel(t.Context())
		for _, owner := range []string{"a", "b", "a", "a", "b", "a"} {
			come(t.Context(), owner)
		}
		come(ended, "c")
		come(t.Context(), "d")
		end()
		synctest.Wait()
		for _, owner := range []string{"a", "d", "b", "a", "b", "a", "a"} {
			all.leave(owner)
			synctest.Wait()
		}
		close(order)
		var got []string
		for owner := range order {
			got = append(got, owner)
		}
		if got := strings.Join(got, " "); got != "a b not c d a b a a" {
			t.Error(got)
		}
		if all.all != 0 || len(all.waiting) > 0 {
			t.Errorf("%+v", all)
		}
	})
}

// What every decision may hold without a turn is little: there are as many decisions at a time
// as the API server asks for.
func TestInTurn_WhatIsNotMuchIsBoundedTogether(t *testing.T) {
	c := New(Options{})
	ended, end := context.WithCancel(t.Context())
	end()
	var held int64
	for i := range 200 {
		ctx, over := InTurn(ended, fmt.Sprint("namespace/", i), 1)
		defer over()
		for _, bytes := range []int64{limits.SmallEvidence, limits.LargeEvidence - limits.SmallEvidence} {
			if err := c.take(ctx, bytes, func() {}); err == nil {
				held += bytes
			} else if !strings.Contains(err.Error(), "limits.EvidenceDecisions") {
				t.Error(err)
			}
		}
	}
	if want := int64(200*limits.SmallEvidence + limits.EvidenceDecisions*(limits.LargeEvidence-limits.SmallEvidence)); held != want {
		t.Errorf("%d MiB are held, and not %d", held>>20, want>>20)
	}
}

// A registry that sends little by little has its blobs read for longer than the decision's
// time. They are held as long, and so is the turn for them.
func TestInTurn_WhatIsStillReadIsHeld(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	s.storeLarge(t, 5<<20)
	began, end := make(chan struct{}, 1), make(chan struct{})
	s.Override(testkit.PathContains("/blobs/"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-end
	}))
	c := New(Options{})
	ended, give := context.WithCancel(t.Context())
	ctx, over := InTurn(ended, "a", 1)
	go func() {
		<-began
		give()
	}()
	_, err := c.Evidence(ctx, s.repository, s.digest, gate.Want{Predicates: []string{provenance}}, nil, nil)
	if err == nil {
		t.Fatal("it is read")
	}
	over()
	if n := c.much(); n != 1 {
		t.Errorf("%d turns are held", n)
	}
	if _, err := begin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("more is begun: %v", err)
	}
	waiting, waitingOver := InTurn(t.Context(), "a", 1)
	taken := make(chan error)
	go func() { taken <- c.take(waiting, limits.LargeEvidence+1, func() {}) }()
	close(end)
	ok(t, <-taken)
	waitingOver()
	if n := c.much(); n != 0 {
		t.Errorf("%d turns are not over", n)
	}
}

// Whoever may push can put more beside an image while a decision over it waits.
func TestInTurn_WhatBecameMoreWhileItWaitedTakesItsTurn(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	s.storeLarge(t, limits.SmallEvidence+1)
	clock := newFakeClock()
	c := clock.client(Options{})
	for i := range limits.EvidenceDecisions {
		if !c.turns[0].try(fmt.Sprint("namespace/", i)) {
			t.Fatal("there is no turn")
		}
	}
	ctx, over := InTurn(t.Context(), "namespace/a", 1)
	found := make(chan error)
	go func() {
		_, err := c.Evidence(ctx, s.repository, s.digest, gate.Want{Predicates: []string{provenance}}, nil, nil)
		found <- err
	}()
	c.turns[0].awaits(t, 1)
	s.storeLarge(t, limits.LargeEvidence+1)
	clock.advance(limits.CacheTTL)
	c.turns[0].leave("namespace/0")
	ok(t, <-found)
	if n := c.much(); n != 1 {
		t.Errorf("%d turns are held for much", n)
	}
	over()
	if n := c.much(); n != 0 {
		t.Errorf("%d turns are not over", n)
	}
}

// awaits waits until so many wait for a turn.
func (t *turns) awaits(tb testing.TB, n int) {
	tb.Helper()
	waiting := func() int {
		t.mu.Lock()
		defer t.mu.Unlock()
		return len(t.waiting)
	}
	for until := time.Now().Add(time.Minute); waiting() != n; runtime.Gosched() {
		if time.Now().After(until) {
			tb.Fatalf("%d wait, and not %d", waiting(), n)
		}
	}
}

// What is read for several decisions is read for the others where the one that asked first
// is over.
func TestInTurn_ADecisionThatIsOverTakesNothingFromOthers(t *testing.T) {
	repository, err := name.NewRepository("registry.example.com/web")
	ok(t, err)
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{})
		l := (&view{}).lookAt(c, c.session(repository, access{}), "", gate.Want{}, 0)
		end := make(chan struct{})
		look := func(owner string, over bool) <-chan error {
			ctx, give := InTurn(t.Context(), owner, 1)
			if over {
				give()
			}
			ended := make(chan error, 1)
			go func() {
				_, err := recall(ctx, l, c.found, "what", limits.CacheTTL, true, func(ctx context.Context) (int, int, error) {
					<-end
					done, err := begin(ctx)
					if err == nil {
						done()
					}
					return 0, 0, err
				})
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		gone, there := look("a", true), look("b", false)
		close(end)
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the one that is over: %v", err)
		}
		ok(t, <-there)
	})
}

// A list that is large is read for each owner in his own turn: who fills his own with others
// that are slow does not hold up who asks about the same image.
func TestClient_NobodyWaitsForTheTurnOfAnotherOwner(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	long := strings.Repeat("A", limits.SignatureAnnotationBytes)
	s.pushAnnotated(t, testkit.SignatureTag(s.digest), "application/vnd.dev.cosign.simplesigning.v1+json", 3, map[string]string{signatureAnnotation: "c2ln", rekorAnnotation: long})
	c := New(Options{})
	if !c.wide.try("namespace/a") {
		t.Fatal("there is no turn")
	}
	look := func(owner string) error {
		ctx, over := InTurn(t.Context(), owner, 1)
		defer over()
		_, err := c.Evidence(ctx, s.repository, s.digest, gate.Want{Signatures: true}, nil, nil)
		return err
	}
	own := make(chan error)
	go func() { own <- look("namespace/a") }()
	c.wide.awaits(t, 1)
	if err := look("namespace/b"); err != nil {
		t.Errorf("another's: %v", err)
	}
	c.wide.leave("namespace/a")
	ok(t, <-own)
	if n := c.wide.now(); n != 0 {
		t.Errorf("%d turns are not over", n)
	}
}
