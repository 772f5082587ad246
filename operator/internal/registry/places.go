package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"golang.org/x/sync/errgroup"
)

const (
	signatureAnnotation   = "dev.cosignproject.cosign/signature"
	certificateAnnotation = "dev.sigstore.cosign/certificate"
	rekorAnnotation       = "dev.sigstore.cosign/bundle"
	timestampAnnotation   = "dev.sigstore.cosign/rfc3161timestamp"
	// attestationAnnotation has the predicate type of a layer under the tag .att,
	// bundleAnnotation that of a bundle.
	attestationAnnotation = "predicateType"
	bundleAnnotation      = "dev.sigstore.bundle.predicateType"

	predicateSign    = "https://sigstore.dev/cosign/sign/v1"
	bundleTypePrefix = "application/vnd.dev.sigstore.bundle"
	emptyType        = "application/vnd.oci.empty.v1+json"
	envelopeType     = "application/vnd.dsse.envelope.v1+json"

	opEvidence = "read signatures"
	opBlob     = "read a signature's content"
)

// place is where a registry keeps evidence about an image.
type place int

const (
	// referrersList is the OCI 1.1 referrers API.
	referrersList place = iota
	// referrersTag is the tag sha256-<hex>, which stands for the API where there is none.
	referrersTag
	// signatureTag is the tag sha256-<hex>.sig.
	signatureTag
	// attestationTag is the tag sha256-<hex>.att.
	attestationTag

	places
)

func (p place) String() string {
	return [...]string{"referrers", "fallback tag", ".sig", ".att"}[p]
}

// listing is what a place names; absent says that the registry has no such place.
type listing struct {
	entries []descriptor
	absent  bool
}

// look is one call's look at one image, place by place.
type look struct {
	c      *Client
	s      *session
	digest string
	want   gate.Want
	// every takes all that places hold for wanted, for a recording.
	every bool
	// budget is how many bytes of evidence are read.
	budget int64
	// shared says that other images of the object have their part of it.
	shared bool
	asked  *atomic.Bool
	// noted is how many bytes were noted for the decision's turn.
	noted int64
	held  [places]struct {
		read, absent bool
		pieces       []piece
		// bytes that were to be read.
		bytes int64
	}
}

// errNotKept says that memory does not have it.
var errNotKept = errors.New("not kept")

// wants says whether a place can hold what is wanted.
func (l *look) wants(p place) bool {
	if l.every {
		return true
	}
	switch p {
	case signatureTag:
		return l.want.Signatures
	case attestationTag:
		return len(l.want.Predicates) > 0
	}
	return l.want.Signatures || len(l.want.Predicates) > 0
}

// fill reads places: their lists, not older than age, and of those what is wanted. Without
// online only memory is looked at, and errNotKept says that it does not do. What is read
// of several is settled in their order, whichever answers first.
func (l *look) fill(ctx context.Context, age time.Duration, online bool, which ...place) error {
	found, absent, reads, err := l.findAll(ctx, age, online, which)
	if err != nil {
		return err
	}
	if !online {
		// Content is memory's own, and annotations are copied.
		reads -= contentOf(found)
	}
	l.noted += reads
	if !online && !l.c.holds(ctx, reads) {
		return errNotKept // and the turn is waited for where the registry is asked
	}
	for more := reads; online; {
		waited := false
		if err := l.c.take(ctx, more, func() { found, waited = nil, true }); err != nil {
			return l.s.failed(opEvidence, 0, err)
		}
		if !waited {
			break
		}
		// There may be more of it by now than the turn is for that was waited for.
		before := reads
		if found, absent, reads, err = l.findAll(ctx, age, online, which); err != nil {
			return err
		}
		more = reads - before
		l.noted += more
	}
	all := slices.Concat(found...)
	pieces := make([]piece, len(all))
	err = inParallel(len(all), func(i int) (err error) {
		pieces[i], err = l.read(ctx, all[i], online)
		return err
	})
	if err != nil {
		return err
	}
	for i, p := range which {
		h := &l.held[p]
		h.read, h.absent = true, absent[i]
		h.pieces, pieces = pieces[:len(found[i]):len(found[i])], pieces[len(found[i]):]
	}
	return nil
}

// findAll lists what places have, and marks what is not read. It returns the bytes of the rest.
func (l *look) findAll(ctx context.Context, age time.Duration, online bool, which []place) (found [][]candidate, absent []bool, reads int64, err error) {
	found, absent = make([][]candidate, len(which)), make([]bool, len(which))
	err = inParallel(len(which), func(i int) (err error) {
		found[i], absent[i], err = l.find(ctx, which[i], age, online)
		return err
	})
	if err != nil {
		return nil, nil, 0, err
	}
	for i, p := range which {
		l.held[p].bytes = l.afford(p, found[i])
		reads += l.held[p].bytes
	}
	return found, absent, reads, nil
}

// inParallel runs f for 0 to n-1. Of several errors the first one's in order counts, and
// not that which came first.
func inParallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all errgroup.Group
	all.SetLimit(limits.RegistryParallel)
	for i := range n {
		all.Go(func() error { errs[i] = f(i); return nil })
	}
	_ = all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// find lists what a place has of what is wanted; absent says that there is no such place.
func (l *look) find(ctx context.Context, p place, age time.Duration, online bool) (found []candidate, absent bool, err error) {
	list, err := recallWide(ctx, l, p.String()+"\x00"+l.digest, age, online, func(ctx context.Context, limit extent) (listing, int, error) {
		list, err := l.list(ctx, p, limit)
		return list, sizeOf(list.entries), err
	})
	if err != nil {
		return nil, false, err
	}
	var picked []descriptor
	for _, d := range list.entries {
		if !l.picks(p, d) {
			continue
		}
		if len(picked) == limits.SignaturesPerImage {
			return nil, false, l.s.tooMany("limits.SignaturesPerImage", limits.SignaturesPerImage, "signatures")
		}
		picked = append(picked, d)
	}
	each := make([][]candidate, len(picked))
	err = inParallel(len(picked), func(i int) (err error) {
		if p == referrersList || p == referrersTag {
			each[i], err = l.bundles(ctx, picked[i], online)
		} else {
			each[i] = []candidate{l.layer(p, picked[i])}
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	found = slices.Concat(each...)
	if len(found) > limits.SignaturesPerImage {
		return nil, false, l.s.tooMany("limits.SignaturesPerImage", limits.SignaturesPerImage, "signatures")
	}
	return found, list.absent, nil
}

// list asks a place what it has, without what can be no evidence at all.
func (l *look) list(ctx context.Context, p place, limit extent) (listing, error) {
	switch p {
	case referrersList:
		all, known, err := l.s.referrersAPI(ctx, l.digest, limit)
		return listing{entries: all, absent: !known}, err
	case referrersTag:
		all, err := l.s.referrersTag(ctx, l.digest, limit)
		return listing{entries: all}, err
	}
	const op = "read the signature manifest"
	body, err := l.s.manifestWithin(ctx, op, fallbackTag(l.digest)+p.String(), manifestTypes, limit)
	if err != nil || body == nil {
		return listing{}, err
	}
	layers, err := apart(l.s, len(body), func() ([]descriptor, error) {
		all, err := parseLayers(body)
		all = slices.DeleteFunc(all, func(d descriptor) bool {
			if p == attestationTag {
				return d.MediaType != envelopeType
			}
			return d.Annotations[signatureAnnotation] == ""
		})
		return only(all, signatureAnnotation, certificateAnnotation, rekorAnnotation, timestampAnnotation, attestationAnnotation), err
	})
	if err != nil {
		return listing{}, l.s.failed(op, 0, err)
	}
	return listing{entries: layers}, nil
}

// listedBundles leaves of a list of referrers those that hold, or could hold, a bundle. Lists
// kept by older clients give the type of the (empty) config where the artifact's should be;
// those manifests have to be looked into.
func listedBundles(all []descriptor) []descriptor {
	return slices.DeleteFunc(all, func(d descriptor) bool {
		// What is named by another kind of digest could not be held to it.
		return !digests.Valid(d.Digest) ||
			!looksLikeBundle(d.ArtifactType) && d.ArtifactType != "" && d.ArtifactType != emptyType
	})
}

// byDigest orders a list of referrers by digest, each of them once.
func byDigest(found []descriptor) []descriptor {
	slices.SortStableFunc(found, func(a, b descriptor) int { return strings.Compare(a.Digest, b.Digest) })
	return slices.CompactFunc(found, func(a, b descriptor) bool { return a.Digest == b.Digest })
}

// label of what a place lists.
func (p place) label(d descriptor) string {
	switch p {
	case signatureTag:
		return predicateSign
	case attestationTag:
		return d.Annotations[attestationAnnotation]
	}
	return d.Annotations[bundleAnnotation]
}

// picks passes by what says that it is something else than what is wanted. What lies
// about that hides itself at worst, which its author could as well not have pushed.
func (l *look) picks(p place, d descriptor) bool {
	label := p.label(d)
	return l.every || label == "" || label == predicateSign && l.want.Signatures || slices.Contains(l.want.Predicates, label)
}
