package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// crowd counts how many are in at a time.
type crowd struct{ now, most atomic.Int64 }

func (c *crowd) in(f func()) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	f()
}

// sessions are one for each of so many registries.
func sessions(t *testing.T, c *Client, n int) []*session {
	t.Helper()
	var all []*session
	for i := range n {
		repository, err := name.NewRepository(fmt.Sprintf("registry-%d.example.com/web", i))
		ok(t, err)
		all = append(all, c.session(repository, access{}))
	}
	return all
}

// Whoever names images in many registries has no more read than whoever names one.
func TestShare_SoManyAreReadAtATimeOverAllRegistries(t *testing.T) {
	const asked = 3 * limits.Reads
	synctest.Test(t, func(t *testing.T) {
		c, end := New(Options{}), make(chan struct{})
		var reading crowd
		var all sync.WaitGroup
		for i, s := range sessions(t, c, asked) {
			ctx, over := InTurn(t.Context(), fmt.Sprint("namespace/", i%8), 1)
			defer over()
			all.Go(func() {
				got, err := share(ctx, c, s, "what", func(context.Context) (int, error) {
					reading.in(func() { <-end })
					return i, nil
				})
				if got != i || err != nil {
					t.Errorf("%d: %d, %v", i, got, err)
				}
			})
		}
		synctest.Wait()
		if n := reading.now.Load(); n != limits.Reads {
			t.Errorf("%d are read at a time", n)
		}
		close(end)
		all.Wait()
		if n := reading.most.Load(); n != limits.Reads || c.reads.now() != 0 || len(c.flights) != 0 {
			t.Errorf("%d were read at a time, %d turns are held, %d are under way", n, c.reads.now(), len(c.flights))
		}
	})
}

// What many of one owner wait for does not hold up another, also where that asks for what one of
// those waits to ask for.
func TestShare_NobodyWaitsForTheReadsOfAnotherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := New(Options{}), make(chan struct{})
		all := sessions(t, c, limits.Reads)
		ask := func(ctx context.Context, owner string, s *session, until <-chan struct{}) <-chan error {
			ctx, over := InTurn(ctx, owner, 1)
			told := make(chan error, 1)
			go func() {
				defer over()
				_, err := share(ctx, c, s, "what", func(context.Context) (int, error) { <-until; return 0, nil })
				told <- err
			}()
			synctest.Wait()
			return told
		}
		var first []<-chan error
		for _, s := range all {
			first = append(first, ask(t.Context(), "namespace/a", s, end))
		}
		at := all[limits.Reads-1] // for which the first owner waits
		now := make(chan struct{})
		close(now)
		ok(t, <-ask(t.Context(), "namespace/b", at, now))
		ended, give := context.WithCancel(t.Context())
		give()
		err := <-ask(ended, "namespace/a", sessions(t, c, limits.Reads+1)[limits.Reads], end)
		if known := new(Error); !errors.As(err, &known) || !strings.Contains(err.Error(), "limits.Reads") || known.Remedy() == "" {
			t.Errorf("whose time ends before his turn: %v", err)
		}
		close(end)
		for _, told := range first {
			ok(t, <-told)
		}
		if n := c.reads.now(); n != 0 {
			t.Errorf("%d turns are held", n)
		}
	})
}

// Those who ask for what is read already need no turn of their own, and give none up.
func TestShare_WhatIsReadAlreadyIsWaitedForWithoutATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := New(Options{}), make(chan struct{})
		s := sessions(t, c, 1)[0]
		var read atomic.Int64
		var all sync.WaitGroup
		for i := range 1000 {
			ctx, over := InTurn(t.Context(), fmt.Sprint("namespace/", i), 1)
			defer over()
			all.Go(func() {
				if _, err := share(ctx, c, s, "what", func(context.Context) (int, error) { read.Add(1); <-end; return 0, nil }); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := c.reads.now(); n != 1 {
			t.Errorf("%d turns are held", n)
		}
		close(end)
		all.Wait()
		if n := read.Load(); n != 1 {
			t.Errorf("it is read %d times", n)
		}
	})
}

// A decision over many images, and many decisions, look at so many of them at a time; who has no
// turn in his time is told so, and never that there is nothing.
func TestClient_SoManyImagesAreLookedAtAtATime(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	c := New(Options{})
	for i := range limits.Looks {
		if !c.looks.try(fmt.Sprint("namespace/", i%2)) {
			t.Fatalf("there is no turn after %d", i)
		}
	}
	look := func(ctx context.Context) error {
		ctx, over := InTurn(ctx, "namespace/a", 1)
		defer over()
		_, err := c.Evidence(ctx, s.repository, s.digest, gate.Want{Signatures: true}, nil, nil)
		return err
	}
	ended, end := context.WithCancel(t.Context())
	end()
	s.ResetCounts()
	known := new(Error)
	if err := look(ended); !errors.As(err, &known) || !strings.Contains(err.Error(), "limits.Looks") || known.Remedy() == "" || s.Requests() != 0 {
		t.Errorf("%v after %d requests", err, s.Requests())
	}
	found := make(chan error)
	go func() { found <- look(t.Context()) }()
	c.looks.awaits(t, 1)
	c.looks.leave("namespace/0")
	ok(t, <-found)
	if n := c.looks.now(); n != limits.Looks-1 {
		t.Errorf("%d turns are held", n)
	}
}

func TestApart_AFewDocumentsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := New(Options{}), make(chan struct{})
		var parsing crowd
		var all sync.WaitGroup
		for _, s := range sessions(t, c, 4*limits.DocumentsParsed) {
			all.Go(func() {
				_, err := apart(s, 1, func() (int, error) { parsing.in(func() { <-end }); return 0, nil })
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := parsing.now.Load(); n != limits.DocumentsParsed {
			t.Errorf("%d are taken apart at a time", n)
		}
		close(end)
		all.Wait()
		if n := parsing.most.Load(); n != limits.DocumentsParsed {
			t.Errorf("%d were taken apart at a time", n)
		}
	})
}

// A manifest may say of a blob that it has ten bytes. What is held is what was said and counted;
// its digest and its length are those of all that came.
func TestSession_HoldsNoMoreOfABlobThanItsManifestSays(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{})
	sent := strings.Repeat("x", limits.SignatureBlobBytes)
	s.Override(testkit.PathContains("/blobs/"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "long") {
			sent += "x"
		}
		_, _ = w.Write([]byte(sent))
	}))
	c := New(Options{})
	at := c.session(mustDigest(t, s).Context(), access{})
	for _, length := range []int64{0, 10, limits.SignatureBlobBytes} {
		a, err := at.do(t.Context(), request{op: opBlob, method: http.MethodGet, path: "blobs/a", limit: limits.SignatureBlobBytes, limitName: "most", described: true, length: length})
		ok(t, err)
		digest, all := a.whole()
		if int64(len(a.body)) != length || int64(cap(a.body)) > length+length/64+4096 || digest != testkit.DigestOf(sent) || all != int64(len(sent)) {
			t.Errorf("%d: %d bytes are held in %d, of %d with %s", length, len(a.body), cap(a.body), all, digest)
		}
	}
	_, err := at.do(t.Context(), request{op: opBlob, method: http.MethodGet, path: "blobs/long", limit: limits.SignatureBlobBytes, limitName: "most", described: true, length: 10})
	if over := new(limitError); !errors.As(err, &over) || over.name != "most" {
		t.Errorf("one that is too long: %v", err)
	}
}

// Those who wait for a turn for much evidence may have all looks of their owner. Who has that
// turn gets along without one, or they would wait for each other until their time is over.
func TestClient_WhoHasATurnForEvidenceWaitsForNoLook(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	s.storeLarge(t, limits.SmallEvidence+1)
	for title, early := range map[string]bool{"before it looks": true, "while it waits for a look": false} {
		c := New(Options{})
		for c.looks.try("namespace/a") { // by those who wait for the turn
		}
		held := c.looks.now()
		ended, end := context.WithTimeout(t.Context(), 10*time.Second)
		ctx, over := InTurn(ended, "namespace/a", 2)
		much := func() { ok(t, c.take(ctx, limits.SmallEvidence+1, func() {})) } // for its other image
		if early {
			much()
		}
		found := make(chan error, 1)
		go func() {
			_, err := c.Evidence(ctx, s.repository, s.digest, gate.Want{Predicates: []string{provenance}}, nil, nil)
			found <- err
		}()
		if !early {
			c.looks.awaits(t, 1)
			much()
		}
		if err := <-found; err != nil {
			t.Errorf("%s: %v", title, err)
		}
		over()
		end()
		if n := c.looks.now(); n != held || c.turns[0].now() != 0 {
			t.Errorf("%s: %d looks are held, and not %d, and %d turns", title, n, held, c.turns[0].now())
		}
	}
}

// Nothing is asked of a registry for a decision whose time is over.
func TestShare_NothingIsBegunOnceTimeIsOver(t *testing.T) {
	c := New(Options{})
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := share(ended, c, sessions(t, c, 1)[0], "what", func(context.Context) (int, error) {
		t.Error("it is read")
		return 0, nil
	})
	if !errors.Is(err, context.Canceled) || len(c.flights) != 0 || c.reads.now() != 0 {
		t.Errorf("%v, %d are under way, and %d turns are held", err, len(c.flights), c.reads.now())
	}
}

// Many decisions over several images with some evidence each, more than there are looks and turns
// for at a time: all come to their end.
func TestClient_DecisionsOverManyImagesDoNotWaitForEachOther(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	all := make([]shop, limits.LooksPerObject+1)
	for i := range all {
		all[i] = shop{Registry: s.Registry, key: s.key, repository: fmt.Sprintf("%s/shop/web-%d", s.Host(), i)}
		all[i].digest = mustPush(t, all[i].repository, fmt.Sprint("web-", i))
		all[i].storeLarge(t, 100<<10)
	}
	c := New(Options{})
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var decisions sync.WaitGroup
	for i := range 120 {
		decisions.Go(func() {
			ctx, over := InTurn(ctx, fmt.Sprint("namespace/", i%3), len(all))
			defer over()
			var images errgroup.Group
			images.SetLimit(limits.LooksPerObject)
			for _, of := range all {
				images.Go(func() error {
					_, err := c.Evidence(ctx, of.repository, of.digest, gate.Want{Predicates: []string{provenance}}, func(Evidence) bool { return false }, nil)
					return err
				})
			}
			if err := images.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	decisions.Wait()
	if looks, reads, turns := c.looks.now(), c.reads.now(), c.turns[0].now(); looks+reads+turns != 0 {
		t.Errorf("%d looks, %d reads and %d turns are held", looks, reads, turns)
	}
}
