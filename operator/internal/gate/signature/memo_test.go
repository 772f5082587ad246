package signature

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// looks is how often memory was asked, and knew or did not.
func (c *Check) looks(t testing.TB) (hits, misses int) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c.Collectors()...)
	counted := map[string]int{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			counted[family.GetName()+" "+m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
		}
	}
	return counted["sluice_verifications_total hit"], counted["sluice_verifications_total miss"]
}

// memoInputs are decisions of every kind, by what is in them.
func memoInputs(t testing.TB) map[string]*gate.Input {
	s := sigstores()[0]
	demands := ruleFor(keylessCI(t, lenient(true, false)), authority(0))
	demands.Attestations = []gate.AttestationRule{demand(vuln, noCritical), demand(provenance, "")}
	built := statementBy(t, ci(), true, webDigest, provenance, nil)
	scanned := statementBy(t, ci(testkit.PartLog), false, webDigest, vuln, scan("2026-01-01T00:00:00Z"))
	found := keyStatement(t, keys()[0], false, webDigest, vuln, scan("2026-01-02T00:00:00Z", "CVE-2", "CVE-1"))
	amd, arm := claim(t, keys()[0], testkit.DigestOf("amd")), claim(t, keys()[1], testkit.DigestOf("arm"))
	return map[string]*gate.Input{
		"an identity, and a warning":  input(ruleFor(keylessCI(t, lenient(true, false))), keylessTag(t, s, ci(testkit.PartLog), webDigest)),
		"signed and attested":         withAttestations(input(demands, keylessBundle(t, s, ci(), webDigest), claim(t, keys()[0], webDigest)), built, scanned),
		"attested, and denied":        withAttestations(input(demands, keylessBundle(t, s, ci(), webDigest)), built, scanned, found),
		"untrusted":                   input(anyOf(0), claim(t, keys()[1], webDigest), keylessTag(t, s, ci(), webDigest)),
		"unsigned":                    input(anyOf(0)),
		"children":                    byChildren(anyOf(0, 1), []gate.Signature{amd}, []gate.Signature{arm}),
		"children, one of them wrong": byChildren(anyOf(0), []gate.Signature{amd}, []gate.Signature{arm}),
	}
}

func TestCheck_SaysTheSameBytesFromMemory(t *testing.T) {
	remembering := New()
	for title, in := range memoInputs(t) {
		want := gate.NewChain(&Check{}).Decide(t.Context(), in).Canonical()
		for _, look := range []string{"at first", "again", "once more"} {
			if got := gate.NewChain(remembering).Decide(t.Context(), in).Canonical(); !bytes.Equal(got, want) {
				t.Errorf("%s, %s:\n got %s\nwant %s", title, look, got, want)
			}
		}
		// Who asks, and where it is named, is no part of it.
		in.Gate.Name, in.Images[0].Ref, in.Images[0].Locations = "other", repository+":2", nil
		want = gate.NewChain(&Check{}).Decide(t.Context(), in).Canonical()
		if got := gate.NewChain(remembering).Decide(t.Context(), in).Canonical(); !bytes.Equal(got, want) {
			t.Errorf("%s, by another gate:\n got %s\nwant %s", title, got, want)
		}
	}
	if hits, misses := remembering.looks(t); misses != len(memoInputs(t)) || hits != 3*misses {
		t.Errorf("%d hits, %d misses", hits, misses)
	}
}

// What is enough to stop reading is not verified again to decide.
func TestCheck_VerifiesOnceForBothItsQuestions(t *testing.T) {
	in := memoInputs(t)["an identity, and a warning"]
	check := New()
	if !check.Enough(t.Context(), []gate.Config{in.Gate}, &in.Images[0]) {
		t.Fatal("not enough")
	}
	check.Evaluate(t.Context(), in)
	if hits, misses := check.looks(t); hits != 1 || misses != 1 {
		t.Errorf("%d hits, %d misses", hits, misses)
	}
}

func TestCheck_KeepsNothingThatWasNotDecided(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	failing := demanding([]gate.Authority{authority(0)}, demand(vuln, "package p\ndeny contains \"found\" if input.predicate.n == 0\ndeny contains \"no\" if 1 / input.predicate.n > 1"))
	gone := ruleFor(gate.Authority{Name: "gone", Unavailable: "not there"})
	scanOf := func(n int) gate.Signature {
		return keyStatement(t, keys()[0], false, webDigest, vuln, map[string]any{"n": n})
	}
	for title, tc := range map[string]struct {
		ctx context.Context
		in  *gate.Input
	}{
		"the time was over":   {over, input(anyOf(0), claim(t, keys()[0], webDigest))},
		"a key is gone":       {t.Context(), input(gone, claim(t, keys()[0], webDigest))},
		"it was not read":     {t.Context(), input(anyOf(0), unreadPiece(""))},
		"a policy failed":     {t.Context(), withAttestations(input(failing), scanOf(0))},
		"one of them failed":  {t.Context(), withAttestations(input(failing), scanOf(0), keyStatement(t, keys()[0], true, webDigest, vuln, map[string]any{"result": "FAILED"}))},
		"nobody is asked yet": {over, input(anyOf(0))},
	} {
		t.Run(title, func(t *testing.T) {
			check := New()
			for range 2 {
				check.Evaluate(tc.ctx, tc.in)
			}
			if hits, _ := check.looks(t); hits != 0 || check.memo.kept.Len() != 0 {
				t.Errorf("%d hits, %d kept", hits, check.memo.kept.Len())
			}
		})
	}
}

// fields changes each field in turn, down to those of lists' elements, and gives it back.
func fields(v reflect.Value, path string, changed func(path string)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fields(v.Field(i), path+"."+v.Type().Field(i).Name, changed)
		}
	case reflect.Pointer:
		if old := v.Elem(); old.IsValid() {
			fields(old, path, changed)
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		changed(path)
		v.SetZero()
	case reflect.Slice:
		old := reflect.ValueOf(v.Interface())
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(append([]byte("changed "), v.Bytes()...))
			changed(path)
		} else {
			for i := range v.Len() {
				fields(v.Index(i), fmt.Sprintf("%s[%d]", path, i), changed)
			}
			v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
			changed(path + " and one more")
		}
		v.Set(old)
	case reflect.String:
		old := v.String()
		v.SetString(old + "\xff")
		changed(path)
		v.SetString(old)
	case reflect.Bool:
		v.SetBool(!v.Bool())
		changed(path)
		v.SetBool(!v.Bool())
	case reflect.Int:
		v.SetInt(v.Int() + 1)
		changed(path)
		v.SetInt(v.Int() - 1)
	default:
		panic("a kind of field that this test does not know: " + path)
	}
}

// Whatever field of a rule or of evidence is another one, one that is added to these types
// tomorrow included, it is another decision.
func TestKeyOf_IsMadeOfEveryFieldThatMatters(t *testing.T) {
	full := func() gate.Signature {
		return gate.Signature{
			Format: gate.FormatBundle, Payload: []byte("p"), Base64: "b", Certificate: []byte("c"), RekorBundle: []byte("r"),
			Timestamp: []byte("t"), Bundle: []byte("u"), Unread: &gate.Unread{Reason: "r", Predicate: "p"},
		}
	}
	rule := ruleFor(keylessCI(t, nil), authority(0))
	rule.Attestations = []gate.AttestationRule{demand(vuln, noCritical, "ci")}
	image := gate.Image{
		Repository: repository, Digest: webDigest, Signatures: []gate.Signature{full(), full()}, Attestations: []gate.Signature{full()},
		Children: []gate.ChildImage{{Digest: "d", Platform: "p", Signatures: []gate.Signature{full()}}},
	}
	seen := map[memoKey]string{keyOf(&image, rule, "image"): "nothing"}
	note := func(path string) {
		key := keyOf(&image, rule, "image")
		if other, ok := seen[key]; ok {
			t.Errorf("with %s changed it is the same as with %s", path, other)
		}
		seen[key] = path
	}
	for path, v := range map[string]any{
		"rule": &rule, "signatures": &image.Signatures, "attestations": &image.Attestations, "children": &image.Children,
		"digest": &image.Digest, "repository": &image.Repository,
	} {
		fields(reflect.ValueOf(v).Elem(), path, note)
	}
	image.Children = nil
	note("no children")
	image.Children = []gate.ChildImage{}
	note("an index without children")
	if len(seen) < 60 {
		t.Errorf("%d changes were tried", len(seen))
	}
}

func TestMemo_CountsTheTextsOfADecision(t *testing.T) {
	m := newMemo()
	m.put(memoKey{1}, reached{authorities: []string{strings.Repeat("a", 100)}, deny: []said{{message: strings.Repeat("m", 1000)}}})
	if n := m.kept.Bytes(); n < memoOverhead+1100 || n > memoOverhead+1200 {
		t.Errorf("1100 bytes of texts take %d", n)
	}
	m.put(memoKey{2}, reached{deny: []said{{message: strings.Repeat("m", limits.VerificationBytes)}}})
	for key, want := range map[memoKey]bool{{1}: true, {2}: false} {
		if _, ok := m.get(key); ok != want {
			t.Errorf("%d: %t", key[0], ok)
		}
	}
}

// BenchmarkCheck_Known is what a reconcile of an image costs that was verified before.
func BenchmarkCheck_Known(b *testing.B) {
	for title, in := range memoInputs(b) {
		for _, c := range []struct {
			name  string
			check *Check
		}{{"verified", &Check{}}, {"known", New()}} {
			c.check.Evaluate(b.Context(), in)
			b.Run(title+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.check.Evaluate(b.Context(), in)
				}
			})
		}
	}
}

// waited tells when somebody waits for it to be over.
type waited struct {
	context.Context
	news chan struct{}
}

func (w waited) Done() <-chan struct{} {
	select {
	case w.news <- struct{}{}:
	default:
	}
	return w.Context.Done()
}

// While one image with much evidence is judged the next waits, and a small one does not.
func TestCheck_JudgesOneLargeImageAtATime(t *testing.T) {
	large := keyStatement(t, keys()[0], false, webDigest, provenance, strings.Repeat("x", limits.LargeEvidence))
	in := withAttestations(input(demanding([]gate.Authority{authority(0)}, demand(provenance, ""))), large)
	small := input(anyOf(0), claim(t, keys()[0], webDigest))
	check := New()
	leave := check.enter(t.Context(), &in.Images[0])
	if f := check.Evaluate(t.Context(), small); f.Images[0].Outcome != gate.ImageVerified {
		t.Errorf("a small one: %+v", f)
	}
	ctx := waited{t.Context(), make(chan struct{}, 1)}
	done := make(chan gate.Findings)
	go func() { done <- check.Evaluate(ctx, in) }()
	<-ctx.news
	if _, misses := check.looks(t); misses != 1 {
		t.Errorf("%d were judged while it had to wait", misses)
	}
	leave()
	if f := <-done; f.Images[0].Outcome != gate.ImageVerified || check.held() != 0 {
		t.Errorf("in its turn: %+v, %d of it are held", f, check.held())
	}
	defer check.enter(t.Context(), &in.Images[0])()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	check.enter(over, &in.Images[0])()
	if check.held() != limits.Judged {
		t.Error("who did not get its turn ended another's")
	}
}

// held is how much of what may be judged at a time is.
func (c *Check) held() int {
	free := 0
	for c.judged.TryAcquire(1) {
		free++
	}
	c.judged.Release(int64(free))
	return limits.Judged - free
}

// A hundred of those that are not much take as much as a few that are.
func TestCheck_JudgesFewImagesWithSomeEvidenceAtATime(t *testing.T) {
	some := keyStatement(t, keys()[0], false, webDigest, provenance, strings.Repeat("x", limits.SmallEvidence))
	in := withAttestations(input(demanding([]gate.Authority{authority(0)}, demand(provenance, ""))), some)
	check := New()
	var leave []func()
	for range limits.Judged {
		leave = append(leave, check.enter(t.Context(), &in.Images[0]))
	}
	ctx := waited{t.Context(), make(chan struct{}, 1)}
	done := make(chan gate.Findings)
	go func() { done <- check.Evaluate(ctx, in) }()
	<-ctx.news
	if _, misses := check.looks(t); misses != 0 {
		t.Errorf("%d were judged while it had to wait", misses)
	}
	for _, f := range leave {
		f()
	}
	if f := <-done; f.Images[0].Outcome != gate.ImageVerified || check.held() != 0 {
		t.Errorf("in its turn: %+v, %d of it are held", f, check.held())
	}
}

// An index may have all its evidence beside the images in it.
func TestCheck_WhatLiesBesideTheImagesOfAnIndexTakesItsTurn(t *testing.T) {
	part := gate.Signature{Format: gate.FormatBundle, Bundle: make([]byte, limits.LargeEvidence/2)}
	check := New()
	leave := check.enter(t.Context(), &gate.Image{Children: []gate.ChildImage{{Signatures: []gate.Signature{part}}, {Signatures: []gate.Signature{part}}}})
	if n := check.held(); n != limits.Judged {
		t.Errorf("%d are held", n)
	}
	leave()
	if n := check.held(); n != 0 {
		t.Errorf("%d are not over", n)
	}
}

// What stands in annotations is taken apart as well as what stands in blobs.
func TestCheck_WhatStandsInAnnotationsTakesItsTurn(t *testing.T) {
	long := make([]byte, limits.SignatureAnnotationBytes)
	one := gate.Signature{Format: gate.FormatCosignTag, Base64: "YQ==", Certificate: long, RekorBundle: long, Timestamp: long}
	for n, want := range map[int]int{1: 0, 3: 1, 64: limits.Judged} {
		check := New()
		leave := check.enter(t.Context(), &gate.Image{Signatures: slices.Repeat([]gate.Signature{one}, n)})
		if got := check.held(); got != want {
			t.Errorf("%d signatures hold %d", n, got)
		}
		leave()
	}
}
