package signature

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	cosigntypes "github.com/sigstore/cosign/v2/pkg/types"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// opinion is what one authority says to what a registry holds.
type opinion struct {
	name string
	// unusable says why the authority could not be asked.
	unusable error
	// accepted, by index of what was looked at.
	accepted map[int]acceptance
	// reasons why the others were refused, some of them.
	reasons []string
}

// ask asks one authority about everything there is, also when one acceptance would do:
// who is named in the result must not depend on the order of signatures in a registry.
func (r *run) ask(name string, a gate.Authority, held []*stored, d digest) opinion {
	o := opinion{name: name, accepted: map[int]acceptance{}}
	v, err := r.verifier(a)
	if err != nil {
		what := "key"
		if a.Keyless != nil {
			what = "identity"
		}
		o.unusable = fmt.Errorf("the %s of authority %s: %w", what, name, err)
		return o
	}
	for i, s := range held {
		if r.ctx.Err() != nil {
			return o
		}
		who, err := v.accepts(r.ctx, s, d)
		if err == nil {
			o.accepted[i] = who
		} else {
			o.reasons = firstReasons(o.reasons, err.Error())
		}
	}
	return o
}

// firstReasons keeps the first ones by alphabet, which are the same in any order.
func firstReasons(reasons []string, more ...string) []string {
	reasons = sorted(append(reasons, more...))
	return reasons[:min(len(reasons), shownReasons)]
}

const shownReasons = 3

// verifier makes an authority ready once per evaluation.
func (r *run) verifier(a gate.Authority) (verifier, error) {
	id := authorityID{key: a.PublicKeyPEM, keyless: a.Keyless, unavailable: a.Unavailable}
	known, ok := r.verifiers[id]
	if !ok {
		known.verifier, known.err = newVerifier(a)
		r.verifiers[id] = known
	}
	return known.verifier, known.err
}

type authorityID struct {
	key         string
	keyless     *gate.Keyless
	unavailable string
}

type readyVerifier struct {
	verifier verifier
	err      error
}

// authorityNames gives authorities without a name their place in the rule.
func authorityNames(all []gate.Authority) []string {
	names := make([]string, 0, len(all))
	for i, a := range all {
		name := a.Name
		if name == "" {
			name = fmt.Sprintf("authorities[%d]", i)
		}
		names = append(names, name)
	}
	return names
}

// tally is what the authorities of a rule say to one image.
type tally struct {
	accepted []string
	missing  []string
	// unknown says of which authorities key or identity cannot be used, and why.
	unknown []string
	// unread says of what may be asked for why it was not read.
	unread []string
	// reasons why signatures were refused.
	reasons []string
	// identities of the certificates that were accepted.
	identities []string
	warnings   []warning
	// signers is how many of the accepting authorities can have one each of its own.
	signers int
	// shared are authorities that stand for fewer signers than they are, if there are any.
	shared []string
	// keyless says that an authority is missing that is an identity; keyed, a key.
	keyless, keyed bool
}

// warning says that an authority was accepted without something.
type warning struct{ authority, lacks string }

func (r *run) count(rule gate.ImageRule, held *evidence, d digest) tally {
	t := tally{unread: held.unreadOf(cosigntypes.CosignSignPredicateType)}
	var signers []map[string]bool
	names := authorityNames(rule.Authorities)
	for i, a := range rule.Authorities {
		o := r.ask(names[i], a, held.signatures, d)
		switch {
		case o.unusable != nil:
			t.unknown = append(t.unknown, o.unusable.Error())
		case len(o.accepted) > 0:
			t.accepted = append(t.accepted, o.name)
			signers = append(signers, o.signers())
			t.identities = append(t.identities, o.identities()...)
			t.warnings = append(t.warnings, o.warnings()...)
		default:
			t.missing = append(t.missing, o.name)
			t.reasons = firstReasons(t.reasons, o.reasons...)
			t.keyless, t.keyed = t.keyless || a.Keyless != nil, t.keyed || a.Keyless == nil
		}
	}
	var shared []int
	t.signers, shared = distinct(signers)
	for _, a := range shared {
		t.shared = append(t.shared, t.accepted[a])
	}
	sort.Strings(t.shared)
	sort.Strings(t.unknown)
	t.accepted, t.missing, t.identities, t.unread = sorted(t.accepted), sorted(t.missing), sorted(t.identities), sorted(t.unread)
	return t
}

func (o opinion) signers() map[string]bool {
	out := map[string]bool{}
	for _, a := range o.accepted {
		out[a.signer] = true
	}
	return out
}

func (o opinion) identities() []string {
	var out []string
	for _, a := range o.accepted {
		if a.identity != "" {
			out = append(out, a.identity)
		}
	}
	return out
}

// warnings are of the acceptance that lacks least: one good signature is enough, what
// lies beside it is nobody's fault.
func (o opinion) warnings() []warning {
	var least []string
	for i, index := range sortedIndexes(o.accepted) {
		lacks := o.accepted[index].lacks
		if i == 0 || len(lacks) < len(least) || len(lacks) == len(least) && slices.Compare(lacks, least) < 0 {
			least = lacks
		}
	}
	out := make([]warning, 0, len(least))
	for _, lack := range least {
		out = append(out, warning{authority: o.name, lacks: lack})
	}
	return out
}

func sortedIndexes(m map[int]acceptance) []int {
	out := make([]int, 0, len(m))
	for i := range m {
		out = append(out, i)
	}
	sort.Ints(out)
	return out
}

// distinct is how many authorities can each be given a signer of its own: two with one
// key, or two patterns that one person satisfies, count once. It is a maximum matching,
// found by augmenting paths. Where it leaves one out, shared are that one and those with
// which it would have to share: together they have fewer signers than they are.
func distinct(authorities []map[string]bool) (n int, shared []int) {
	taken := map[string]int{}
	var place func(int, map[string]bool) bool
	place = func(a int, tried map[string]bool) bool {
		for signer := range authorities[a] {
			if tried[signer] {
				continue
			}
			tried[signer] = true
			if other, ok := taken[signer]; !ok || place(other, tried) {
				taken[signer] = a
				return true
			}
		}
		return false
	}
	for a := range authorities {
		tried := map[string]bool{}
		if place(a, tried) {
			n++
			continue
		}
		if shared == nil {
			shared = append(shared, a)
			for signer := range tried {
				shared = append(shared, taken[signer])
			}
		}
	}
	return n, shared
}

// needed is how many different signers a rule asks for: with "all" one for each of its
// authorities. It is never zero: a rule without authorities accepts nothing.
func needed(rule gate.ImageRule) int {
	if rule.Require.All {
		return max(len(rule.Authorities), 1)
	}
	return max(rule.Require.Count, 1)
}

// satisfies says whether there are enough signers. With "all", that each authority has
// one of its own means that each has accepted.
func (t tally) satisfies(rule gate.ImageRule) bool { return t.signers >= needed(rule) }

// couldSatisfy says whether what is not known could make up for what is missing: each
// authority that could not be asked may have signed, and each thing that was not read may
// be a signature, of one signer, that one more authority accepts.
func (t tally) couldSatisfy(rule gate.ImageRule) bool {
	open := len(t.unknown) + len(t.unread)
	return open > 0 && min(t.signers+open, len(rule.Authorities)) >= needed(rule)
}

// complaint about what, "image" or a child of an index.
func (t tally) complaint(rule gate.ImageRule, what string) string {
	switch {
	case len(rule.Authorities) == 0:
		return fmt.Sprintf("rule %s names no authority, so that no signature can be accepted", rule.Match)
	case rule.Require.All && len(t.missing) == 0 && len(t.shared) > 0:
		return fmt.Sprintf("%s needs a signature of every authority, each by another signer, and %s are satisfied by %s alone",
			what, list(t.shared, "and"), plural(len(t.shared)-1, "signer"))
	case rule.Require.All && len(rule.Authorities) > 1:
		return fmt.Sprintf("%s needs a signature of every authority, and has none of %s", what, list(t.missing, "and"))
	case needed(rule) > 1:
		return fmt.Sprintf("%s needs signatures by %d different %s and has %d; none of %s",
			what, needed(rule), signersOf(rule), t.signers, list(t.missing, "and"))
	}
	return what + " has no signature that authority " + list(t.missing, "or") + " accepts"
}

func signersOf(rule gate.ImageRule) string {
	for _, a := range rule.Authorities {
		if a.Keyless != nil {
			return "signers"
		}
	}
	return "keys"
}

// list writes "a", "a or b", "a, b or c".
func list(names []string, last string) string {
	switch n := len(names); n {
	case 0:
		return "any other authority"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " " + last + " " + names[n-1]
	}
}

// sorted also drops what is there twice.
func sorted(names []string) []string {
	sort.Strings(names)
	return slices.Compact(names)
}

// shown is the first of many reasons, and how many more there are.
func shown(reasons []string) string {
	more := ""
	if n := len(reasons) - shownReasons; n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(reasons[:min(len(reasons), shownReasons)], "; ") + more
}

// because is the reasons in words, empty if there are none.
func because(reasons []string) string {
	if len(reasons) == 0 {
		return ""
	}
	return " (" + strings.Join(reasons, "; ") + ")"
}
