package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// candidate is what a place names and may be evidence, before its content is read.
type candidate struct {
	// label is the predicate type that whoever stored it says it has, "" for none.
	label string
	// signature has all but the content.
	signature gate.Signature
	content   descriptor
	// unread says why the content is not read.
	unread error
}

// piece is one signature or attestation, sorted by the predicate type that its own
// statement gives; "" where it has no statement that can be read. What was not read is
// sorted by its label.
type piece struct {
	predicate string
	signature gate.Signature
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

// afford marks what is not read, as it is too large or all of it together is. The
// smallest come first: one large blob, which anybody who may push can store, then keeps
// nothing smaller from being read. It returns the bytes of the others.
func (l *look) afford(p place, found []candidate) int64 {
	left := l.budget
	for q := range p {
		if q != referrersList || p != referrersTag { // of which one counts
			left -= l.held[q].bytes
		}
	}
	order := make([]*candidate, len(found))
	for i := range found {
		order[i] = &found[i]
	}
	slices.SortStableFunc(order, func(a, b *candidate) int { return cmp.Compare(a.size(), b.size()) })
	var sum int64
	for _, c := range order {
		limit, name := l.most(p, c.label)
		switch {
		case c.unread != nil:
		case !digests.Valid(c.content.Digest) || c.content.Size < 0:
			c.unread = &contentError{text: "its manifest describes it by something other than a SHA-256 and a size"}
		case c.content.Size > limit:
			c.unread = &limitError{name: name, text: fmt.Sprintf("it is larger than %d bytes", limit)}
		case c.size() > left-sum:
			c.unread = &limitError{name: l.budgetName(), text: fmt.Sprintf("it and all that is smaller have more than %d bytes", l.budget)}
		default:
			sum += c.size()
		}
		if c.unread != nil { // whoever waits for a turn does not hold it
			c.signature = gate.Signature{Format: c.signature.Format}
		}
	}
	return sum
}

// contentOf is the content that is to be read, in bytes.
func contentOf(found [][]candidate) int64 {
	var sum int64
	for _, c := range slices.Concat(found...) {
		if c.unread == nil {
			sum += c.content.Size
		}
	}
	return sum
}

// size is what is held of it in bytes: its content, and what its annotations hold.
func (c *candidate) size() int64 {
	s := &c.signature
	return c.content.Size + int64(len(s.Base64)+len(s.Certificate)+len(s.RekorBundle)+len(s.Timestamp))
}

func (l *look) budgetName() string {
	if l.shared {
		return "limits.ObjectEvidenceBytes"
	}
	return "limits.EvidenceBytes"
}

// most is the largest content of one piece, and that limit's name.
func (l *look) most(p place, label string) (int64, string) {
	attests := p == attestationTag || p != signatureTag && label != predicateSign && (l.every || len(l.want.Predicates) > 0)
	if attests {
		return limits.AttestationBytes, "limits.AttestationBytes"
	}
	return limits.SignatureBlobBytes, "limits.SignatureBlobBytes"
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

// recall takes from memory what is not older than age, and from the registry what is.
func recall[T any](ctx context.Context, l *look, from *memory, what string, age time.Duration, online bool, read func(context.Context) (T, int, error)) (T, error) {
	return recallOnce(ctx, l, from, what, "", age, online, read)
}

// recallOnce is recall that reads once for all who ask for the same at the same time and are of
// the same group.
func recallOnce[T any](ctx context.Context, l *look, from *memory, what, group string, age time.Duration, online bool, read func(context.Context) (T, int, error)) (T, error) {
	key := l.s.key(what)
	if kept, ok := from.get(key, age); ok {
		return kept.(T), nil
	}
	if !online {
		var zero T
		return zero, errNotKept
	}
	l.asked.Store(true)
	for {
		in := l.c.reads
		if group != "" {
			in = nil // it has turns of its own
		}
		got, err := shareIn(ctx, l.c, l.s, in, group+what, func(ctx context.Context) (T, error) {
			if kept, ok := from.get(key, age); ok {
				// Another flight landed between our look and the start of this one.
				return kept.(T), nil
			}
			value, bytes, err := read(ctx)
			if err == nil {
				from.put(key, value, bytes)
			}
			return value, err
		})
		// Somebody else's decision may have ended before what it asked for was begun.
		if !errors.Is(err, errOver) || isOver(ctx) {
			return got, err
		}
	}
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
	layers, err := apart(l.s, func() ([]descriptor, error) {
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

// listedBundles leaves of a list of referrers those that hold, or could hold, a bundle. Lists kept by older clients give the type of the (empty) config where the
// artifact's should be; those manifests have to be looked into.
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

// described are the layers of a referrer's manifest that are bundles, or why they cannot
// be told.
type described struct {
	layers []descriptor
	unread error
}

// bundles are those that a referrer's manifest describes, none if it turns out to be
// something else.
func (l *look) bundles(ctx context.Context, referrer descriptor, online bool) ([]candidate, error) {
	found, err := recall(ctx, l, l.c.found, "bundle\x00"+referrer.Digest, limits.CacheContentTTL, online, func(ctx context.Context) (described, int, error) {
		d, err := l.describe(ctx, referrer)
		return d, sizeOf(d.layers), err
	})
	if err != nil {
		return nil, err
	}
	c := candidate{label: referrersList.label(referrer), signature: gate.Signature{Format: gate.FormatBundle}}
	if c.content.Digest, c.unread = referrer.Digest, found.unread; c.unread != nil {
		return []candidate{c}, nil
	}
	all := make([]candidate, 0, len(found.layers))
	for _, layer := range found.layers {
		c.content = layer
		all = append(all, c)
	}
	return all, nil
}

func (l *look) describe(ctx context.Context, referrer descriptor) (described, error) {
	const op = "read a signature bundle"
	limit := extent{limits.BundleManifestBytes, "limits.BundleManifestBytes"}
	large := described{unread: &limitError{name: limit.name, text: fmt.Sprintf("its manifest is larger than %d bytes", limit.bytes)}}
	if referrer.Size > limit.bytes {
		return large, nil
	}
	body, err := l.s.manifestWithin(ctx, op, referrer.Digest, manifestTypes, limit)
	if limit.exceeded(err) {
		return large, nil
	}
	if err != nil {
		return described{}, err
	}
	if body == nil {
		return described{}, l.s.failed(op, 0, &contentError{text: "the list of referrers names a manifest that is not there"})
	}
	layers, err := apart(l.s, func() ([]descriptor, error) {
		all, err := parseLayers(body)
		return only(slices.DeleteFunc(all, func(d descriptor) bool { return !looksLikeBundle(d.MediaType) })), err
	})
	if err != nil {
		return described{unread: err}, nil
	}
	if len(layers) > limits.SignaturesPerImage {
		return described{unread: &limitError{name: "limits.SignaturesPerImage", text: fmt.Sprintf("its manifest has more than %d bundles", limits.SignaturesPerImage)}}, nil
	}
	return described{layers: layers}, nil
}

// layer is one signature or attestation under a tag.
func (l *look) layer(p place, d descriptor) candidate {
	c := candidate{label: p.label(d), content: d}
	c.signature, c.unread = annotated(d)
	c.signature.Format = gate.FormatCosignTag
	if p == attestationTag {
		c.signature.Format, c.signature.Base64 = gate.FormatAttestationTag, ""
	}
	return c
}

// annotated takes what a layer's annotations hold.
func annotated(d descriptor) (gate.Signature, error) {
	s := gate.Signature{Base64: d.Annotations[signatureAnnotation]}
	tooLong := &limitError{name: "limits.SignatureAnnotationBytes", text: fmt.Sprintf("an annotation of it is longer than %d bytes", limits.SignatureAnnotationBytes)}
	if len(s.Base64) > limits.SignatureAnnotationBytes {
		return gate.Signature{}, tooLong
	}
	for annotation, field := range map[string]*[]byte{
		certificateAnnotation: &s.Certificate, rekorAnnotation: &s.RekorBundle, timestampAnnotation: &s.Timestamp,
	} {
		value := d.Annotations[annotation]
		if len(value) > limits.SignatureAnnotationBytes {
			return gate.Signature{}, tooLong
		}
		if value != "" {
			*field = []byte(value)
		}
	}
	return s, nil
}

// content is a blob with the predicate type of the statement in it.
type content struct {
	raw       []byte
	predicate string
}

// read fetches the content of a candidate. What is wrong with that by its author's doing
// is noted, and not in the way of the rest.
func (l *look) read(ctx context.Context, c candidate, online bool) (piece, error) {
	if c.unread != nil {
		return c.notRead(c.unread), nil
	}
	format, from := c.signature.Format, l.c.found
	if c.content.Size > limits.SignatureBlobBytes {
		from = l.c.large
	}
	what := "blob\x00" + string(format) + "\x00" + c.content.Digest
	got, err := recall(ctx, l, from, what, limits.CacheContentTTL, online, func(ctx context.Context) (content, int, error) {
		done, err := begin(ctx)
		if err != nil {
			return content{}, 0, err
		}
		defer done()
		raw, err := l.s.blob(ctx, opBlob, c.content)
		return content{raw, predicateIn(format, raw)}, len(raw), err
	})
	var author madeSo
	if errors.As(err, &author) {
		return c.notRead(author.error), nil
	}
	if err != nil {
		return piece{}, err
	}
	p := piece{got.predicate, c.signature}
	if format == gate.FormatBundle {
		p.signature.Bundle = got.raw
	} else {
		p.signature.Payload = got.raw
	}
	return p, nil
}

func (c candidate) notRead(why error) piece {
	what := "something that it describes in no way that can be used"
	if digests.Valid(c.content.Digest) {
		what = c.content.Digest
	}
	return piece{c.label, gate.Signature{Format: c.signature.Format, Unread: &gate.Unread{Reason: what + ": " + plain(why), Predicate: c.label}}}
}
