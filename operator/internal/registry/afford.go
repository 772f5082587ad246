package registry

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

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
