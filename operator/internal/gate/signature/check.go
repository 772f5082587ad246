// Package signature is the check that images are signed by the authorities that a Gate
// names. It works on what was gathered and makes no call of its own: no registry, no
// transparency log, no clock.
package signature

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

const policy = "signature"

// Check implements gate.Check.
type Check struct{}

// New makes the check.
func New() *Check { return &Check{} }

// Needed says whether the decision over an image takes its digest and signatures. Where
// it does not, nothing has to be asked of a registry.
func Needed(cfg gate.Config, image gate.Image) bool {
	if image.Invalid != "" {
		return false
	}
	rule, ok := cfg.RuleFor(image.Repository)
	return ok && !rule.Require.None && (!rule.RequireDigest || image.Pinned)
}

// Evaluate judges every image of the input.
func (*Check) Evaluate(ctx context.Context, in *gate.Input) gate.Findings {
	r := &run{ctx: ctx, in: in, keys: map[string]parsedKey{}}
	for i := range in.Images {
		r.judge(&in.Images[i])
	}
	return r.findings
}

type parsedKey struct {
	key *key
	err error
}

// run is one evaluation.
type run struct {
	ctx      context.Context
	in       *gate.Input
	keys     map[string]parsedKey
	findings gate.Findings
}

func (r *run) judge(image *gate.Image) {
	if image.Invalid != "" {
		r.deny(image, gate.ImageUntrusted, "image reference cannot be read: "+image.Invalid, "name the image as registry/repository:tag or registry/repository@sha256:…")
		return
	}
	rule, ok := r.in.Gate.RuleFor(image.Repository)
	switch {
	case !ok && r.in.Gate.DenyUnmatched:
		r.deny(image, gate.ImageUntrusted,
			fmt.Sprintf("no image rule of gate %s matches %s", r.in.Gate.Name, image.Repository),
			"use an image from a repository that the gate knows, or have its owner add a rule to spec.images")
	case !ok:
		r.result(image, gate.ImageAllowed, nil)
	case rule.RequireDigest && !image.Pinned:
		r.deny(image, gate.ImageUntrusted,
			fmt.Sprintf("image is named by tag alone, and gate %s demands a digest (requireDigest of rule %s)", r.in.Gate.Name, rule.Match),
			"name the image as "+image.Repository+"@sha256:…")
	case rule.Require.None:
		r.result(image, gate.ImageAllowed, nil)
	case image.Unavailable != "":
		r.undecided(image, "signatures of the image could not be read: "+image.Unavailable, "try again once the registry answers")
	default:
		r.verify(image, rule)
	}
}

// tally is what the authorities of a rule say to an image.
type tally struct {
	accepted []string
	missing  []string
	// unknown authorities, with the reason.
	unknown []string
	// keys that accepted: two authorities with one key count once.
	keys map[string]bool
	// maybe are the authorities that are not known to have refused, by key.
	maybe int
}

func (r *run) verify(image *gate.Image, rule gate.ImageRule) {
	d, err := newDigest(image.Digest)
	if err != nil {
		r.undecided(image, "the image's digest is not known: "+err.Error(), "try again; if it stays, report it with the Gate and the image")
		return
	}
	signatures := readSignatures(image.Signatures)
	t := r.count(rule, signatures, d)
	if r.ctx.Err() != nil {
		r.undecided(image, "verifying signatures took too long", "remove signatures that nobody needs from the registry, or authorities from the rule")
		return
	}
	switch {
	case t.satisfies(rule):
		r.result(image, gate.ImageVerified, t.accepted)
	case t.couldSatisfy(rule):
		r.undecided(image, "the key of authority "+strings.Join(t.unknown, "; of authority "), "make the key readable, see spec.images of gate "+r.in.Gate.Name)
	case len(signatures) == 0:
		r.deny(image, gate.ImageUnsigned, t.complaint(rule), "sign it: "+signCommand(image))
	default:
		r.deny(image, gate.ImageUntrusted, t.complaint(rule),
			fmt.Sprintf("the registry holds %s that no further authority accepts; sign with the right key: %s", plural(len(signatures), "signature"), signCommand(image)))
	}
}

// count asks every authority, also when enough have accepted: which ones are named in
// the result must not depend on the order of signatures in a registry.
func (r *run) count(rule gate.ImageRule, signatures []signed, d digest) tally {
	t := tally{keys: map[string]bool{}}
	for i, a := range rule.Authorities {
		name := a.Name
		if name == "" {
			name = fmt.Sprintf("authorities[%d]", i)
		}
		k, err := r.key(a)
		switch {
		case err != nil:
			t.unknown = append(t.unknown, name+": "+err.Error())
			t.maybe++
		case r.anyAccepted(k, signatures, d):
			t.accepted = append(t.accepted, name)
			t.keys[k.id] = true
		default:
			t.missing = append(t.missing, name)
		}
	}
	sort.Strings(t.accepted)
	sort.Strings(t.missing)
	sort.Strings(t.unknown)
	return t
}

func (r *run) anyAccepted(k *key, signatures []signed, d digest) bool {
	for _, s := range signatures {
		if r.ctx.Err() != nil {
			return false
		}
		if k.accepts(r.ctx, s, d) {
			return true
		}
	}
	return false
}

func (r *run) key(a gate.Authority) (*key, error) {
	if a.Unavailable != "" {
		return nil, fmt.Errorf("%s", a.Unavailable)
	}
	p, ok := r.keys[a.PublicKeyPEM]
	if !ok {
		p.key, p.err = newKey(a.PublicKeyPEM)
		r.keys[a.PublicKeyPEM] = p
	}
	return p.key, p.err
}

// needed is never zero: a rule without authorities accepts nothing.
func needed(rule gate.ImageRule) int { return max(rule.Require.Count, 1) }

func (t tally) satisfies(rule gate.ImageRule) bool {
	if rule.Require.All {
		return len(t.accepted) > 0 && len(t.missing) == 0 && len(t.unknown) == 0
	}
	return len(t.keys) >= needed(rule)
}

func (t tally) couldSatisfy(rule gate.ImageRule) bool {
	if t.maybe == 0 {
		return false
	}
	if rule.Require.All {
		return len(t.missing) == 0
	}
	return len(t.keys)+t.maybe >= needed(rule)
}

func (t tally) complaint(rule gate.ImageRule) string {
	switch {
	case len(rule.Authorities) == 0:
		return fmt.Sprintf("rule %s names no authority, so that no signature can be accepted", rule.Match)
	case rule.Require.All && len(rule.Authorities) > 1:
		return fmt.Sprintf("image needs a signature of every authority, and has none of %s", list(t.missing, "and"))
	case needed(rule) > 1:
		return fmt.Sprintf("image needs signatures by %d different keys and has %d; none of %s", needed(rule), len(t.keys), list(t.missing, "and"))
	}
	return "image has no signature that authority " + list(t.missing, "or") + " accepts"
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

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func signCommand(image *gate.Image) string {
	return "cosign sign --key cosign.key " + image.Repository + "@" + image.Digest
}

func (r *run) result(image *gate.Image, outcome gate.ImageOutcome, authorities []string) {
	r.findings.Images = append(r.findings.Images, gate.ImageResult{
		Image: image.Ref, Digest: image.Digest, Outcome: outcome, Authority: strings.Join(authorities, ","),
	})
}

func (r *run) deny(image *gate.Image, outcome gate.ImageOutcome, message, remedy string) {
	r.result(image, outcome, nil)
	r.findings.Deny = append(r.findings.Deny, r.at(image, message, remedy)...)
}

func (r *run) undecided(image *gate.Image, message, remedy string) {
	r.result(image, gate.ImageError, nil)
	r.findings.Undecided = append(r.findings.Undecided, r.at(image, message, remedy)...)
}

// at makes a finding for each place that names the image. An image without a place is
// put on the object that is judged, so that it cannot pass unseen.
func (r *run) at(image *gate.Image, message, remedy string) []gate.Finding {
	locations := image.Locations
	if len(locations) == 0 {
		locations = []gate.Location{{Object: r.in.Object.String()}}
	}
	out := make([]gate.Finding, 0, len(locations))
	for _, l := range locations {
		out = append(out, gate.Finding{
			Policy: policy, Severity: gate.SeverityCritical, Object: l.Object, Path: l.Path, Message: message, Remedy: remedy,
		})
	}
	return out
}
