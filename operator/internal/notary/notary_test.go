package notary_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sluice-dev/sluice/operator/internal/attest"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/notary"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

var keys = sync.OnceValues(func() (out [2]*testkit.Key, err error) {
	for i := range out {
		if out[i], err = testkit.NewKey(); err != nil {
			return out, err
		}
	}
	return out, nil
})

// noKMS has no key.
type noKMS struct{}

func (noKMS) Signer(_ context.Context, uri string) (*attest.Signer, error) {
	return nil, errors.New("no key " + uri)
}

// bench is a Notary over a registry with one image.
type bench struct {
	*testing.T
	registry *testkit.Registry
	notary   *notary.Notary
	digest   string
	order    notary.Order
	now      atomic.Int64
	mu       sync.Mutex
	results  map[string]int
}

func newBench(t *testing.T, options testkit.RegistryOptions) *bench {
	t.Helper()
	b := &bench{T: t, registry: testkit.NewRegistry(options)}
	t.Cleanup(b.registry.Close)
	b.now.Store(time.Now().Unix())
	var err error
	if b.digest, err = testkit.PushImage(b.repository()+":1", "app"); err != nil {
		t.Fatal(err)
	}
	all, err := keys()
	if err != nil {
		t.Fatal(err)
	}
	b.order = notary.Order{
		Matter:   notary.Matter{Environment: "e2e", PolicyDigest: testkit.DigestOf("rules"), Repository: b.repository(), Digest: b.digest},
		Gate:     "e2e",
		Key:      notary.Key{ID: "one", Text: []byte(all[0].PrivatePEM)},
		Keychain: func(context.Context) (authn.Keychain, error) { return nil, nil },
	}
	b.restart()
	return b
}

func (b *bench) repository() string { return b.registry.Host() + "/shop/app" }

func (b *bench) clock() time.Time { return time.Unix(b.now.Load(), 0) }

// restart is another process, which remembers nothing.
func (b *bench) restart() {
	b.results = map[string]int{}
	b.notary = notary.New(notary.Options{Registry: registry.New(registry.Options{}), Keys: noKMS{}, Now: b.clock, Count: func(gate, result string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.results[gate+" "+result]++
	}})
}

// wait asks, waits until more is known, and asks again.
func (b *bench) wait(ask func(context.Context, notary.Order, string, func()) notary.State, o notary.Order) notary.State {
	b.Helper()
	woken := make(chan struct{}, 1)
	if st := ask(b.Context(), o, "a", func() { woken <- struct{}{} }); st.Standing != notary.Pending {
		return st
	}
	select {
	case <-woken:
	case <-time.After(30 * time.Second):
		b.Fatal("nobody is told")
	}
	return ask(b.Context(), o, "a", func() {})
}

func (b *bench) expect(st notary.State, want notary.Standing, says string) {
	b.Helper()
	if st.Standing != want || (st.Err == nil) != (says == "") || st.Err != nil && !strings.Contains(st.Err.Error(), says) {
		b.Fatalf("it is %d (%v), and not %d (%s)", st.Standing, st.Err, want, says)
	}
}

func (b *bench) puts() int { return b.registry.Counts()["PUT manifests"] }

func TestNotary_WritesWhatIsNotThereAndNothingTwice(t *testing.T) {
	for name, options := range map[string]testkit.RegistryOptions{"with the referrers API": {Referrers: true}, "without it": {}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, options)
			b.expect(b.wait(b.notary.Look, b.order), notary.Absent, "")
			b.registry.ResetCounts()
			b.expect(b.notary.Look(t.Context(), b.order, "b", nil), notary.Absent, "")
			if n := b.registry.Requests(); n != 0 {
				t.Errorf("looking again takes %d requests", n)
			}
			b.expect(b.wait(b.notary.Write, b.order), notary.Present, "")
			written := b.puts()
			b.registry.ResetCounts()
			b.expect(b.notary.Write(t.Context(), b.order, "b", nil), notary.Present, "")
			if n := b.registry.Requests(); n != 0 {
				t.Errorf("it takes %d requests once it is there", n)
			}
			b.restart()
			b.expect(b.wait(b.notary.Look, b.order), notary.Present, "")
			b.restart()
			b.expect(b.wait(b.notary.Write, b.order), notary.Present, "")
			if written == 0 || b.puts() != 0 || b.results["e2e present"] != 1 {
				t.Errorf("%d pushes, and %d by another process: %v", written, b.puts(), b.results)
			}
		})
	}
}

// Only the very same counts as being there.
func TestNotary_WritesBesideWhatIsAboutSomethingElse(t *testing.T) {
	all, err := keys()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*notary.Order, *evidence.Summary) string{
		"another environment": func(_ *notary.Order, s *evidence.Summary) string {
			s.Verifier = evidence.Verifier("ci")
			return all[0].PrivatePEM
		},
		"other rules": func(_ *notary.Order, s *evidence.Summary) string {
			s.Policy.Digest = testkit.DigestOf("x")
			return all[0].PrivatePEM
		},
		"a failure": func(_ *notary.Order, s *evidence.Summary) string {
			s.Result = evidence.Failed
			return all[0].PrivatePEM
		},
		"another image": func(_ *notary.Order, s *evidence.Summary) string {
			s.Subjects = []string{testkit.DigestOf("x")}
			return all[0].PrivatePEM
		},
		"somebody else's key": func(*notary.Order, *evidence.Summary) string { return all[1].PrivatePEM },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, testkit.RegistryOptions{Referrers: true})
			s := b.order.Summary(b.clock())
			signer, err := attest.NewSigner([]byte(change(&b.order, &s)), nil)
			if err != nil {
				t.Fatal(err)
			}
			signed, err := notary.Sign(t.Context(), signer, s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := notary.Store(t.Context(), registry.New(registry.Options{}), b.repository(), signed.Bundle, []string{b.digest}, nil); err != nil {
				t.Fatal(err)
			}
			before := b.puts()
			b.expect(b.wait(b.notary.Write, b.order), notary.Present, "")
			if b.puts() == before || b.results["e2e written"] != 1 {
				t.Errorf("nothing is written: %v", b.results)
			}
		})
	}
}

func TestNotary_AThousandWhoAskForTheSameAreOne(t *testing.T) {
	b := newBench(t, testkit.RegistryOptions{Referrers: true})
	const askers = 1000
	var told sync.WaitGroup
	told.Add(askers)
	for i := range askers {
		go func() {
			var once sync.Once
			if st := b.notary.Write(t.Context(), b.order, fmt.Sprint(i), func() { once.Do(told.Done) }); st.Standing == notary.Present {
				once.Do(told.Done)
			}
		}()
	}
	told.Wait()
	if b.results["e2e written"] != 1 || len(b.results) != 1 {
		t.Errorf("%v", b.results)
	}
}

func TestNotary_DoesSomeAtATime(t *testing.T) {
	b := newBench(t, testkit.RegistryOptions{Referrers: true})
	now, most := 0, 0
	release := make(chan struct{})
	arrived := make(chan struct{}, 100)
	order := b.order
	order.Keychain = func(context.Context) (authn.Keychain, error) {
		b.mu.Lock()
		now++
		most = max(most, now)
		b.mu.Unlock()
		arrived <- struct{}{}
		<-release
		b.mu.Lock()
		now--
		b.mu.Unlock()
		return nil, errors.New("no credentials")
	}
	var told sync.WaitGroup
	for i := range 5 * limits.AttestationsAtOnce {
		order.Environment = fmt.Sprintf("e%d", i)
		told.Add(1)
		b.expect(b.notary.Look(t.Context(), order, "a", told.Done), notary.Pending, "")
	}
	for range limits.AttestationsAtOnce {
		<-arrived
	}
	close(release)
	told.Wait()
	if most != limits.AttestationsAtOnce {
		t.Errorf("%d at a time", most)
	}
	b.expect(b.notary.Look(t.Context(), order, "a", nil), notary.Failed, "the credentials to store with: no credentials")
}

// holding is a registry that stands still once evidence was read.
type holding struct {
	*registry.Client
	read    chan struct{}
	release chan struct{}
}

func (h *holding) Evidence(ctx context.Context, repository, digest string, want gate.Want, enough func(registry.Evidence) bool, keys authn.Keychain) (registry.Evidence, error) {
	held, err := h.Client.Evidence(ctx, repository, digest, want, enough, keys)
	if len(want.Predicates) > 0 {
		h.read <- struct{}{}
		<-h.release
	}
	return held, err
}

// What it reads is of the same memory as what decisions read, of which it has half at most.
func TestNotary_HoldsMuchInItsTurnAlone(t *testing.T) {
	b := newBench(t, testkit.RegistryOptions{Referrers: true})
	client := registry.New(registry.Options{})
	from := &holding{client, make(chan struct{}, 8), make(chan struct{})}
	b.notary = notary.New(notary.Options{Registry: from, Keys: noKMS{}, Now: b.clock, Count: func(string, string) {}})
	large := func(name string) notary.Order {
		o := b.order
		o.Repository = b.registry.Host() + "/shop/" + name
		digest, err := testkit.PushImage(o.Repository+":1", name)
		if err != nil {
			t.Fatal(err)
		}
		if err := testkit.StoreBundle(o.Repository, digest, bytes.Repeat([]byte("x"), limits.LargeEvidence+1), evidence.PredicateType); err != nil {
			t.Fatal(err)
		}
		o.Digest = digest
		return o
	}
	var told sync.WaitGroup
	for i := range limits.LargeDecisions {
		told.Add(1)
		b.expect(b.notary.Look(t.Context(), large(fmt.Sprintf("large-%d", i)), "a", told.Done), notary.Pending, "")
	}
	<-from.read // and the others wait for it
	first, second := large("first"), large("second")
	look := func(o notary.Order, wait time.Duration) (over func(), err error) {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		ctx, over = registry.InTurn(ctx, "namespace/"+o.Repository, 1)
		_, err = client.Evidence(ctx, o.Repository, o.Digest, gate.Want{Predicates: []string{evidence.PredicateType}}, nil, nil)
		return over, err
	}
	over, err := look(first, time.Minute)
	if err != nil {
		t.Errorf("a decision beside it: %v", err)
	}
	gaveUp, err := look(second, time.Second)
	if err == nil || !strings.Contains(err.Error(), "limits.LargeDecisions") {
		t.Errorf("one more: %v", err)
	}
	gaveUp()
	close(from.release)
	told.Wait()
	afterThem, err := look(second, time.Minute)
	if err != nil {
		t.Errorf("after them: %v", err)
	}
	afterThem()
	over()
}

// Of an index each image has the evidence, and what is missing after a failure is added.
func TestNotary_AnIndexIsAttestedWithItsImagesAlsoAfterAFailureMidway(t *testing.T) {
	b := newBench(t, testkit.RegistryOptions{Referrers: true})
	index, err := testkit.Index("app")
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(b.repository() + ":2")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	b.order.Digest = digest.String()
	pushed := 0
	b.registry.Override(func(r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		pushed++
		return pushed > 1
	}, testkit.Status(http.StatusForbidden))
	b.expect(b.wait(b.notary.Write, b.order), notary.Failed, "1 of 3 images have the evidence")
	b.registry.Restore()
	b.registry.ResetCounts()
	b.expect(b.notary.Write(t.Context(), b.order, "a", nil), notary.Failed, "1 of 3")
	b.restart()
	b.expect(b.wait(b.notary.Write, b.order), notary.Present, "")
	if b.puts() != 2 {
		t.Errorf("%d pushes for the two images that were missing", b.puts())
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range manifest.Manifests {
		o := b.order
		o.Digest = child.Digest.String()
		b.restart()
		b.expect(b.wait(b.notary.Look, o), notary.Present, "")
	}
}

func TestNotary_TriesAgainWithPausesThatGrow(t *testing.T) {
	b := newBench(t, testkit.RegistryOptions{Referrers: true})
	b.order.Key = notary.Key{ID: "kms", KMS: "hashivault://gone"}
	var last time.Duration
	for range 12 {
		st := b.wait(b.notary.Write, b.order)
		b.expect(st, notary.Failed, "the key to sign with: no key hashivault://gone")
		wait := st.Again.Sub(b.clock())
		if wait < last || wait > limits.AttestationPauseMax {
			t.Fatalf("after %s it waits %s", last, wait)
		}
		last = wait
		b.now.Add(int64(wait / time.Second))
	}
	if last != limits.AttestationPauseMax {
		t.Errorf("the longest pause is %s", last)
	}
	b.order.Key.ID = "another"
	if st := b.notary.Write(t.Context(), b.order, "a", func() {}); st.Standing != notary.Pending {
		t.Errorf("another key is not tried at once: %+v", st)
	}
}

// another is named in place of who signed.
type another struct {
	*attest.Signer
	by gate.Authority
}

func (a another) Authority([]byte) (gate.Authority, error) { return a.by, nil }

// A key that was rotated in its service signs, and is not the one that was read before.
func TestSign_WhatDoesNotVerifyIsAnError(t *testing.T) {
	var signers []*attest.Signer
	for range 2 {
		key, err := testkit.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		signer, err := attest.NewSigner([]byte(key.PrivatePEM), nil)
		if err != nil {
			t.Fatal(err)
		}
		signers = append(signers, signer)
	}
	summary := notary.Matter{Environment: "e2e", Repository: "example.com/app", Digest: testkit.DigestOf("app")}.Summary(time.Now())
	signed, err := notary.Sign(t.Context(), signers[0], summary)
	if err != nil || signed.By.PublicKeyPEM != signers[0].PublicKeyPEM() {
		t.Fatalf("%+v, %v", signed.By, err)
	}
	signed, err = notary.Sign(t.Context(), another{signers[0], gate.Authority{Name: "own", PublicKeyPEM: signers[1].PublicKeyPEM()}}, summary)
	if err == nil || !strings.Contains(err.Error(), "nothing is stored") || signed.Bundle != nil {
		t.Errorf("%s, %v", signed.Bundle, err)
	}
}

// Of two who ask for the same, each fails by their own credentials, and hears of no others.
func TestNotary_WhatFailsWithOnesCredentialsIsTriedWithThoseOfAnother(t *testing.T) {
	b := newBench(t, testkit.RegistryOptions{Referrers: true})
	theirs := b.order
	theirs.Credentials = "namespace a"
	theirs.Keychain = func(context.Context) (authn.Keychain, error) { return nil, errors.New("Secret a/broken") }
	mine := b.order
	mine.Credentials = "namespace b"
	b.expect(b.wait(b.notary.Look, theirs), notary.Failed, "Secret a/broken")
	b.expect(b.wait(b.notary.Look, mine), notary.Absent, "")
	b.now.Add(int64(limits.AttestationPauseMax / time.Second))
	b.expect(b.wait(b.notary.Write, theirs), notary.Failed, "Secret a/broken")
	b.expect(b.notary.Look(t.Context(), theirs, "a", func() {}), notary.Failed, "Secret a/broken")
	// Asked for while theirs is under way, it is not told what became of theirs.
	b.now.Add(int64(limits.AttestationPauseMax / time.Second))
	arrived, release := make(chan struct{}), make(chan struct{})
	held := theirs
	held.Keychain = func(context.Context) (authn.Keychain, error) {
		close(arrived)
		<-release
		return nil, errors.New("Secret a/broken")
	}
	b.expect(b.notary.Write(t.Context(), held, "a", func() {}), notary.Pending, "")
	<-arrived
	woken := make(chan struct{})
	b.expect(b.notary.Write(t.Context(), mine, "b", func() { close(woken) }), notary.Pending, "")
	close(release)
	<-woken
	b.expect(b.wait(b.notary.Write, mine), notary.Present, "")
	if b.results["e2e written"] != 1 {
		t.Errorf("%v", b.results)
	}
	b.expect(b.notary.Look(t.Context(), theirs, "a", nil), notary.Present, "")
}

// Who has what is there written with which credentials is one thing, what is there another.
func TestNotary_OfManyWithCredentialsOfTheirOwnOneWrites(t *testing.T) {
	b := newBench(t, testkit.RegistryOptions{Referrers: true})
	var told sync.WaitGroup
	for i := range 20 {
		o := b.order
		o.Credentials = fmt.Sprint("namespace ", i)
		told.Add(1)
		go func() {
			var once sync.Once
			if st := b.notary.Write(t.Context(), o, fmt.Sprint(i), func() { once.Do(told.Done) }); st.Standing == notary.Present {
				once.Do(told.Done)
			}
		}()
	}
	told.Wait()
	if b.results["e2e written"] != 1 || len(b.results) != 1 {
		t.Errorf("%v", b.results)
	}
}
