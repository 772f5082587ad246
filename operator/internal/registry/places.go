package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"golang.org/x/sync/errgroup"
)

const (
	signatureAnnotation   = "dev.cosignproject.cosign/signature"
	certificateAnnotation = "dev.sigstore.cosign/certificate"
	chainAnnotation       = "dev.sigstore.cosign/chain"
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

// piece is one signature or attestation, sorted by the predicate type that its own
// statement gives; "" where it has no statement that can be read.
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
	asked  *atomic.Bool
	held   [places]struct {
		read, absent bool
		pieces       []piece
	}
}

// errNotKept says that memory does not have it.
var errNotKept = errors.New("not kept")

// wants says whether a place can hold what is wanted.
func (l *look) wants(p place) bool {
	switch p {
	case signatureTag:
		return l.want.Signatures
	case attestationTag:
		return len(l.want.Predicates) > 0
	}
	return l.want.Signatures || len(l.want.Predicates) > 0
}

// fill reads a place: its list, not older than age, and of that what is wanted. Without
// online only memory is looked at, and errNotKept says that it does not do.
func (l *look) fill(ctx context.Context, p place, age time.Duration, online bool) error {
	list, err := recall(ctx, l, p.String()+"\x00"+l.digest, age, online, func(ctx context.Context) (listing, int, error) {
		list, err := l.list(ctx, p)
		return list, sizeOf(list.entries), err
	})
	if err != nil {
		return err
	}
	picked := slices.DeleteFunc(slices.Clone(list.entries), func(d descriptor) bool { return !l.picks(p, d) })
	if len(picked) > limits.SignaturesPerImage {
		return l.s.tooMany("limits.SignaturesPerImage", limits.SignaturesPerImage, "signatures")
	}
	pieces, err := l.readAll(ctx, p, picked, online)
	if err != nil {
		return err
	}
	h := &l.held[p]
	h.read, h.absent, h.pieces = true, list.absent, pieces
	return nil
}

// recall takes from memory what is not older than age, and from the registry what is.
func recall[T any](ctx context.Context, l *look, what string, age time.Duration, online bool, read func(context.Context) (T, int, error)) (T, error) {
	key := l.s.key(what)
	if kept, ok := l.c.found.get(key, age); ok {
		return kept.(T), nil
	}
	if !online {
		var zero T
		return zero, errNotKept
	}
	l.asked.Store(true)
	return share(ctx, l.c, l.s, what, func(ctx context.Context) (T, error) {
		if kept, ok := l.c.found.get(key, age); ok {
			// Another flight landed between our look and the start of this one.
			return kept.(T), nil
		}
		value, bytes, err := read(ctx)
		if err == nil {
			l.c.found.put(key, value, bytes)
		}
		return value, err
	})
}

// list asks a place what it has, without what can be no evidence at all.
func (l *look) list(ctx context.Context, p place) (listing, error) {
	switch p {
	case referrersList:
		all, known, err := l.s.referrersAPI(ctx, l.digest)
		return listing{entries: bundles(all), absent: !known}, err
	case referrersTag:
		all, err := l.s.referrersTag(ctx, l.digest)
		return listing{entries: bundles(all)}, err
	}
	const op = "read the signature manifest"
	body, err := l.s.manifest(ctx, op, fallbackTag(l.digest)+p.String(), manifestTypes)
	if err != nil || body == nil {
		return listing{}, err
	}
	layers, err := parseLayers(body)
	if err != nil {
		return listing{}, l.s.failed(op, 0, err)
	}
	return listing{entries: slices.DeleteFunc(layers, func(d descriptor) bool {
		if p == attestationTag {
			return d.MediaType != envelopeType
		}
		return d.Annotations[signatureAnnotation] == ""
	})}, nil
}

// bundles leaves of a list of referrers those that hold, or could hold, a bundle, ordered
// by digest. Lists kept by older clients give the type of the (empty) config where the
// artifact's should be; those manifests have to be looked into.
func bundles(all []descriptor) []descriptor {
	found := slices.DeleteFunc(all, func(d descriptor) bool {
		// What is named by another kind of digest could not be held to it.
		return !images.ValidDigest(d.Digest) ||
			!looksLikeBundle(d.ArtifactType) && d.ArtifactType != "" && d.ArtifactType != emptyType
	})
	slices.SortStableFunc(found, func(a, b descriptor) int { return strings.Compare(a.Digest, b.Digest) })
	return slices.CompactFunc(found, func(a, b descriptor) bool { return a.Digest == b.Digest })
}

// picks passes by what says that it is something else than what is wanted. What lies
// about that hides itself at worst, which its author could as well not have pushed.
func (l *look) picks(p place, d descriptor) bool {
	said := d.Annotations[bundleAnnotation]
	switch p {
	case signatureTag:
		return true
	case attestationTag:
		said = d.Annotations[attestationAnnotation]
	}
	if said == "" {
		return true
	}
	return said == predicateSign && l.want.Signatures || slices.Contains(l.want.Predicates, said)
}

// readAll fetches what was picked. Results and errors come in the order of the list and
// not in that of arrival.
func (l *look) readAll(ctx context.Context, p place, picked []descriptor, online bool) ([]piece, error) {
	results := make([][]piece, len(picked))
	errs := make([]error, len(picked))
	var all errgroup.Group
	all.SetLimit(limits.RegistryParallel)
	for i, d := range picked {
		all.Go(func() error {
			if p == referrersList || p == referrersTag {
				results[i], errs[i] = l.bundle(ctx, d, online)
			} else {
				results[i], errs[i] = l.layer(ctx, p, d, online)
			}
			return nil
		})
	}
	_ = all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	pieces := slices.Concat(results...)
	if len(pieces) > limits.SignaturesPerImage {
		return nil, l.s.tooMany("limits.SignaturesPerImage", limits.SignaturesPerImage, "signatures")
	}
	return pieces, nil
}

// bundle reads the bundles that a referrer's manifest holds, none if it turns out to be
// something else.
func (l *look) bundle(ctx context.Context, referrer descriptor, online bool) ([]piece, error) {
	return recall(ctx, l, "bundle\x00"+referrer.Digest, limits.CacheContentTTL, online, func(ctx context.Context) ([]piece, int, error) {
		const op = "read a signature bundle"
		if referrer.Size > limits.ManifestBytes {
			return nil, 0, l.s.tooLarge(op, "limits.ManifestBytes", limits.ManifestBytes)
		}
		body, err := l.s.manifest(ctx, op, referrer.Digest, manifestTypes)
		if err != nil {
			return nil, 0, err
		}
		if body == nil {
			return nil, 0, l.s.failed(op, 0, &contentError{text: "the list of referrers names a manifest that is not there"})
		}
		layers, err := parseLayers(body)
		if err != nil {
			return nil, 0, l.s.failed(op, 0, err)
		}
		layers = slices.DeleteFunc(layers, func(d descriptor) bool { return !looksLikeBundle(d.MediaType) })
		if len(layers) > limits.SignaturesPerImage {
			return nil, 0, l.s.tooMany("limits.SignaturesPerImage", limits.SignaturesPerImage, "signatures")
		}
		var found []piece
		bytes := 0
		for _, layer := range layers {
			raw, err := l.s.blob(ctx, op, layer)
			if err != nil {
				return nil, 0, err
			}
			bytes += len(raw)
			found = append(found, piece{bundlePredicate(raw), gate.Signature{Format: gate.FormatBundle, Bundle: raw}})
		}
		return found, bytes, nil
	})
}

// layer reads one signature or attestation under a tag.
func (l *look) layer(ctx context.Context, p place, d descriptor, online bool) ([]piece, error) {
	signature, err := l.annotated(d)
	if err != nil {
		return nil, err
	}
	signature.Payload, err = recall(ctx, l, "blob\x00"+d.Digest, limits.CacheContentTTL, online, func(ctx context.Context) ([]byte, int, error) {
		raw, err := l.s.blob(ctx, "read a signature's payload", d)
		return raw, len(raw), err
	})
	if err != nil {
		return nil, err
	}
	if p == signatureTag {
		signature.Format = gate.FormatCosignTag
		return []piece{{predicateSign, signature}}, nil
	}
	signature.Format, signature.Base64 = gate.FormatAttestationTag, ""
	return []piece{{envelopePredicate(signature.Payload), signature}}, nil
}

// annotated takes what a layer's annotations hold.
func (l *look) annotated(d descriptor) (gate.Signature, error) {
	s := gate.Signature{Base64: d.Annotations[signatureAnnotation]}
	if len(s.Base64) > limits.SignatureAnnotationBytes {
		return s, l.s.tooLarge(opEvidence, "limits.SignatureAnnotationBytes", limits.SignatureAnnotationBytes)
	}
	for annotation, field := range map[string]*[]byte{
		certificateAnnotation: &s.Certificate, chainAnnotation: &s.Chain, rekorAnnotation: &s.RekorBundle, timestampAnnotation: &s.Timestamp,
	} {
		value := d.Annotations[annotation]
		if len(value) > limits.SignatureAnnotationBytes {
			return s, l.s.tooLarge(opEvidence, "limits.SignatureAnnotationBytes", limits.SignatureAnnotationBytes)
		}
		if value != "" {
			*field = []byte(value)
		}
	}
	return s, nil
}
