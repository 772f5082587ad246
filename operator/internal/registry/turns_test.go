package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

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
