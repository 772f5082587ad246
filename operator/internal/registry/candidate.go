package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

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
	layers, err := apart(l.s, len(body), func() ([]descriptor, error) {
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
		if err != nil {
			return content{}, 0, err
		}
		got, err := apart(l.s, len(raw), func() (content, error) { return content{raw, predicateIn(format, raw)}, nil })
		return got, len(raw), err
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
