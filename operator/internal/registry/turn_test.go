package registry

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func TestInTurn_FewHoldMuchAtATime(t *testing.T) {
	c := New(Options{})
	ended, end := context.WithCancel(t.Context())
	end()
	var holders []func()
	for range limits.LargeDecisions {
		ctx, over := InTurn(t.Context(), 1)
		ok(t, c.take(ctx, limits.LargeEvidence))
		ok(t, c.take(ctx, 1))
		ok(t, c.take(ctx, limits.LargeEvidence)) // it has its turn
		holders = append(holders, over)
	}
	late, lateOver := InTurn(ended, 1)
	ok(t, c.take(late, limits.LargeEvidence)) // which is not much
	if err := c.take(late, 1); err == nil || !strings.Contains(err.Error(), "limits.LargeDecisions") {
		t.Errorf("one more: %v", err)
	}
	ok(t, c.take(ended, 10*limits.LargeEvidence)) // no decision of an object
	lateOver()                                    // gives nothing back that it does not have
	if err := c.take(late, 1); err == nil {
		t.Error("one more, after it gave up")
	}
	holders[0]()
	holders[0]()
	late, lateOver = InTurn(t.Context(), 1)
	ok(t, c.take(late, 2*limits.LargeEvidence))
	lateOver()
	holders[1]()
	if len(c.turns) != 0 {
		t.Errorf("%d turns are not over", len(c.turns))
	}
}

func TestInTurn_ImagesShareEvenly(t *testing.T) {
	for images, want := range map[int]int64{0: limits.EvidenceBytes, 1: limits.EvidenceBytes, 2: limits.EvidenceBytes, 4: limits.EvidenceBytes / 2, limits.ImagesPerObject: 768 << 10} {
		ctx, _ := InTurn(t.Context(), images)
		if got := shareOf(ctx); got != want {
			t.Errorf("%d images: %d bytes each", images, got)
		}
	}
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	s.storeLarge(t, 5<<20, 8<<20, 9<<20)
	ctx, over := InTurn(t.Context(), 6)
	c := New(Options{})
	found, err := c.Evidence(ctx, s.repository, s.digest, gate.Want{Predicates: []string{provenance}}, nil, nil)
	ok(t, err)
	if why := reasons(found.Attestations); strings.Count(why, "have more than 16777216 bytes (limits.ObjectEvidenceBytes)") != 1 {
		t.Errorf("not read: %s", why)
	}
	if len(c.turns) != 1 {
		t.Errorf("%d turns are held", len(c.turns))
	}
	over()
	if len(c.turns) != 0 {
		t.Error("the turn is not over")
	}
}

// What stands in annotations is held as well as what stands in blobs, and nobody has to push
// a large blob for it.
func TestInTurn_AnnotationsCount(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	long := strings.Repeat("A", limits.SignatureAnnotationBytes)
	annotations := map[string]string{signatureAnnotation: "c2ln", certificateAnnotation: long, chainAnnotation: long, rekorAnnotation: long}
	s.pushAnnotated(t, testkit.SignatureTag(s.digest), "application/vnd.dev.cosign.simplesigning.v1+json", 20, annotations)
	s.pushAnnotated(t, testkit.AttestationTag(s.digest), envelopeType, 20, annotations)
	want := gate.Want{Signatures: true, Predicates: []string{provenance}}
	c := New(Options{})
	for images, c := range map[int]*Client{1: c, limits.ImagesPerObject: New(Options{})} {
		ctx, over := InTurn(t.Context(), images)
		found, err := c.Evidence(ctx, s.repository, s.digest, want, nil, nil)
		ok(t, err)
		var held int64
		for _, sig := range slices.Concat(found.Signatures, found.Attestations) {
			held += int64(len(sig.Certificate) + len(sig.Chain) + len(sig.RekorBundle))
		}
		if held > shareOf(ctx) || held == 0 {
			t.Errorf("one of %d images: %d bytes are held, of %d", images, held, shareOf(ctx))
		}
		if (len(c.turns) == 1) != (held > limits.LargeEvidence) {
			t.Errorf("one of %d images: %d bytes are held, and %d turns", images, held, len(c.turns))
		}
		over()
	}
}
