package registry

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"golang.org/x/sync/errgroup"
)

// Evidence is what a registry holds for one image. None of it is verified.
type Evidence struct {
	// Signatures of the image.
	Signatures []gate.Signature
	// Attestations of the types that were wanted.
	Attestations []gate.Signature
	// Children of an index with their signatures; nil if the image is no index or they
	// were not wanted.
	Children []gate.ChildImage
}

// Evidence returns what the registry holds for repository@digest of what is wanted, in
// the places where cosign stores it: sigstore bundles among the image's referrers, and
// layers of the images tagged sha256-<hex>.sig and .att. That there is none is no error;
// anything that keeps a place from being read is, of type *Error.
//
// Bundles are read first. enough is asked after that, before the older formats are looked
// at: true leaves those unread; nil never stops early. It is also asked about what memory
// holds, before the registry is, and may be asked again with more. It must not keep or
// change what it is shown.
//
// Which evidence an image has is kept for limits.CacheTTL as long as that is enough (with
// nil: at least one piece of each that is wanted), otherwise for limits.CacheNegativeTTL;
// errors not at all. It is kept apart by the credentials that kc has for the repository,
// so that nobody is told from memory what the registry would not tell them. The bytes are
// shared: callers must not change them.
func (c *Client) Evidence(ctx context.Context, repository, digest string, want gate.Want, enough func(Evidence) bool, kc authn.Keychain) (Evidence, error) {
	if !digests.Valid(digest) {
		return Evidence{}, fmt.Errorf("reading signatures of %s: %q is not a digest", repository, digest)
	}
	return inTurn(ctx, c, repository, kc, func(s *session) (Evidence, error) {
		if c.record != nil {
			c.record.lookedAt(fullName(s.repo)+"@"+digest, func(ctx context.Context) error { return c.rest(ctx, s, digest) })
		}
		return c.evidence(ctx, s, digest, want, enough)
	})
}

func (c *Client) evidence(ctx context.Context, s *session, digest string, want gate.Want, enough func(Evidence) bool) (Evidence, error) {
	v := &view{enough: enough}
	v.image = v.lookAt(c, s, digest, want, shareOf(ctx))
	v.image.shared = v.image.budget < limits.EvidenceBytes
	if v.recall(ctx) {
		c.lookups.WithLabelValues("hit").Inc()
		return v.evidence(), nil
	}
	_, err := inLook(ctx, c, s, func() (struct{}, error) { return struct{}{}, v.read(ctx) })
	result := "hit"
	if v.asked.Load() {
		result = "miss"
	}
	c.lookups.WithLabelValues(result).Inc()
	if err != nil {
		return Evidence{}, s.typed(opEvidence, err)
	}
	return v.evidence(), nil
}

// view is one call's view of an image and, where that is an index, of the images in it.
type view struct {
	enough func(Evidence) bool
	asked  atomic.Bool
	image  *look
	// index says that image is one; children are those in it.
	index    bool
	children []child
}

type child struct {
	*look
	platform string
}

func (v *view) lookAt(c *Client, s *session, digest string, want gate.Want, budget int64) *look {
	return &look{c: c, s: s, digest: digest, want: want, budget: budget, asked: &v.asked}
}

func (v *view) looks() []*look {
	all := []*look{v.image}
	for _, c := range v.children {
		all = append(all, c.look)
	}
	return all
}

// each runs f for all images.
func each(looks []*look, f func(*look) error) error {
	return inParallel(len(looks), func(i int) error { return f(looks[i]) })
}

// recall looks at what memory holds, and says whether that is enough. Where the caller
// does not say what is, all places have to be there, with something of all in them.
func (v *view) recall(ctx context.Context) bool {
	decided, err := v.inOrder(ctx, limits.CacheTTL, false)
	switch {
	case err != nil || decided:
		return err == nil
	case v.enough == nil:
		return v.satisfied()
	}
	return v.isEnough()
}

// read asks the registry. Lists that did not do are used again only if they are quite new.
func (v *view) read(ctx context.Context) error {
	for _, l := range v.looks() {
		clear(l.held[:])
		l.c.holds(ctx, -l.noted) // what memory had is let go
		l.noted = 0
	}
	_, err := v.inOrder(ctx, limits.CacheNegativeTTL, true)
	return err
}

// inOrder looks place by place until it is enough, in memory and at the registry in the
// same order: who else asked about an image before must not change what is found. decided
// says that it was enough before all places were read.
func (v *view) inOrder(ctx context.Context, age time.Duration, online bool) (decided bool, err error) {
	var first errgroup.Group
	var own, inIndex error
	first.Go(func() error { own = v.image.referrers(ctx, age, online); return nil })
	first.Go(func() error {
		if inIndex = v.openIndex(ctx, online); inIndex == nil {
			inIndex = each(v.looks()[1:], func(l *look) error { return l.referrers(ctx, age, online) })
		}
		return nil
	})
	_ = first.Wait()
	if err := cmp.Or(own, inIndex); err != nil || v.isEnough() {
		return err == nil, err
	}
	if err := each(v.looks(), func(l *look) error { return l.tags(ctx, age, online) }); err != nil {
		return false, err
	}
	late := slices.DeleteFunc(v.looks(), (*look).complete)
	if len(late) == 0 || v.isEnough() {
		return len(late) > 0, nil
	}
	return false, each(late, func(l *look) error { return l.fill(ctx, age, online, referrersList) })
}

func (v *view) isEnough() bool { return v.enough != nil && v.enough(v.evidence()) }

// referrers reads the bundles. Where the registry was seen to have no API for that, the
// tag in its place comes first and the API last, when nothing else was enough: what is
// remembered may save a request and not decide.
func (l *look) referrers(ctx context.Context, age time.Duration, online bool) error {
	if !l.wants(referrersList) {
		return nil
	}
	if l.s.offline == nil && l.s.host.lacksReferrers() {
		return l.fill(ctx, age, online, referrersTag)
	}
	if err := l.fill(ctx, age, online, referrersList); err != nil || !l.held[referrersList].absent {
		return err
	}
	return l.fill(ctx, age, online, referrersTag)
}

// tags reads the two older formats.
func (l *look) tags(ctx context.Context, age time.Duration, online bool) error {
	which := slices.DeleteFunc([]place{signatureTag, attestationTag}, func(p place) bool { return !l.wants(p) })
	return l.fill(ctx, age, online, which...)
}

// complete says whether all places were read that may hold what is wanted.
func (l *look) complete() bool {
	for p := range places {
		if p != referrersTag && l.wants(p) && !l.held[p].read {
			return false
		}
	}
	return !l.held[referrersList].absent || l.held[referrersTag].read
}

// pieces are all that was found, in an order that does not depend on which place was
// read first. A registry with the API is taken at its word: the tag is of before it had
// one.
func (l *look) pieces() []piece {
	first := l.held[referrersList].pieces
	if !l.held[referrersList].read || l.held[referrersList].absent {
		first = l.held[referrersTag].pieces
	}
	return slices.Concat(first, l.held[signatureTag].pieces, l.held[attestationTag].pieces)
}

// sorted are the signatures and the attestations that are wanted. A bundle without a
// statement that can be read goes with the signatures, and an envelope with the
// attestations, or where alone something is wanted: who verifies shall see and name it.
func (l *look) sorted() (signatures, attestations []gate.Signature) {
	for _, p := range l.pieces() {
		envelope := p.signature.Format == gate.FormatAttestationTag
		switch {
		case slices.Contains(l.want.Predicates, p.predicate) || p.predicate == "" && (envelope || !l.want.Signatures):
			attestations = append(attestations, p.signature)
		case l.want.Signatures && !envelope && (p.predicate == predicateSign || p.predicate == ""):
			signatures = append(signatures, p.signature)
		}
	}
	return signatures, attestations
}

func (v *view) evidence() Evidence {
	var e Evidence
	e.Signatures, e.Attestations = v.image.sorted()
	if v.index {
		e.Children = make([]gate.ChildImage, 0, len(v.children))
	}
	for _, c := range v.children {
		signatures, _ := c.sorted()
		e.Children = append(e.Children, gate.ChildImage{Digest: c.digest, Platform: c.platform, Signatures: signatures})
	}
	return e
}

// satisfied says whether there is something of all that is wanted.
func (v *view) satisfied() bool {
	for _, l := range v.looks() {
		found := map[string]bool{}
		for _, p := range l.pieces() {
			if p.signature.Unread == nil {
				found[p.predicate] = true
			}
		}
		if l.want.Signatures && !found[predicateSign] && !found[""] {
			return false
		}
		for _, predicate := range l.want.Predicates {
			if !found[predicate] {
				return false
			}
		}
	}
	return true
}

// openIndex lists the images of an index, where they are wanted. An index has a digest
// and cannot change, so that memory does as long as it holds it.
func (v *view) openIndex(ctx context.Context, online bool) error {
	l := v.image
	if !l.want.Children || v.index {
		return nil
	}
	children, err := recallWide(ctx, l, "index\x00"+l.digest, limits.CacheContentTTL, online, func(ctx context.Context, limit extent) ([]descriptor, int, error) {
		children, err := l.readIndex(ctx, limit)
		return children, sizeOf(children), err
	})
	if err != nil {
		return err
	}
	v.index = children != nil
	for _, d := range children {
		share := shareOf(ctx) / int64(len(children))
		v.children = append(v.children, child{v.lookAt(l.c, l.s, d.Digest, gate.Want{Signatures: true}, share), d.Platform.String()})
	}
	return nil
}

func (l *look) readIndex(ctx context.Context, limit extent) ([]descriptor, error) {
	const op = "read the image index"
	body, err := l.s.manifestWithin(ctx, op, l.digest, indexTypes+","+manifestTypes, limit)
	if err == nil && body == nil {
		err = l.s.failed(op, http.StatusNotFound, nil)
	}
	if err != nil {
		return nil, err
	}
	children, err := apart(l.s, len(body), func() ([]descriptor, error) { return parseChildren(body) })
	if err != nil {
		return nil, l.s.failed(op, 0, err)
	}
	if len(children) > limits.ImageChildren {
		return nil, l.s.tooMany("limits.ImageChildren", limits.ImageChildren, "images in the index")
	}
	return children, nil
}
