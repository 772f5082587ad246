package signature

import (
	"crypto/sha256"
	"encoding/gob"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/lru"
)

// memo keeps what was decided over images, for all who use one Check: admission asks
// about what the reconciler verified, and both about what was enough to stop reading.
//
// A decision depends on nothing but what its key is made of, and on no clock: times are
// those that signatures bring, verified. So nothing in here ends, or is invalidated: where
// a Gate, a key, a root or what a registry holds is another one, so is the key. What was
// not decided is not kept, as that may have been for lack of time.
type memo struct {
	asked *prometheus.CounterVec
	kept  *lru.Cache[memoKey, reached]
}

type memoKey [sha256.Size]byte

// memoOverhead is what an entry takes beside its texts: map, list and headers.
const memoOverhead = 512

func newMemo() *memo {
	return &memo{
		kept: lru.New[memoKey, reached](limits.Verifications, limits.VerificationBytes),
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_verifications_total",
			Help: "Decisions over what a registry holds for an image: hit where the same was decided before, miss where signatures were verified.",
		}, []string{"result"}),
	}
}

// get is safe on a nil memo, which holds nothing.
func (m *memo) get(key memoKey) (reached, bool) {
	if m == nil {
		return reached{}, false
	}
	kept, ok := m.kept.Get(key)
	if !ok {
		m.asked.WithLabelValues("miss").Inc()
		return reached{}, false
	}
	m.asked.WithLabelValues("hit").Inc()
	return kept.clone(), true
}

// put keeps a decision, unless it takes more than limits.VerificationBytes.
func (m *memo) put(key memoKey, r reached) {
	if m != nil {
		m.kept.Put(key, r.clone(), memoOverhead+r.size())
	}
}

// keyOf is made of everything that the decision over what, an image or something that is
// held to a rule in the same way, depends on:
// all of the rule, keys and roots as bytes, and all that the registry holds, its content
// as SHA-256. Fields that come to these types later are in it too.
func keyOf(image *gate.Image, rule gate.ImageRule, what string) memoKey {
	about := struct {
		What, Repository, Digest string
		Rule                     gate.ImageRule
		Signatures, Attestations []gate.Signature
		Index                    bool
		Children                 []gate.ChildImage
	}{
		What: what, Repository: image.Repository, Digest: image.Digest, Rule: rule,
		Signatures: summed(image.Signatures), Attestations: summed(image.Attestations),
		Index: image.Children != nil, Children: slices.Clone(image.Children),
	}
	for i := range about.Children {
		about.Children[i].Signatures = summed(about.Children[i].Signatures)
	}
	h := sha256.New()
	// Unlike JSON it keeps texts as they are, be they UTF-8 or not.
	if err := gob.NewEncoder(h).Encode(about); err != nil {
		panic("signature: evidence that cannot be encoded: " + err.Error())
	}
	return memoKey(h.Sum(nil))
}

func summed(all []gate.Signature) []gate.Signature {
	out := slices.Clone(all)
	for i := range out {
		payload, bundle := sha256.Sum256(out[i].Payload), sha256.Sum256(out[i].Bundle)
		out[i].Payload, out[i].Bundle = payload[:], bundle[:]
	}
	return out
}
