// Package signature is the check that images are signed by the authorities that a Gate
// names. It works on what was gathered and makes no call of its own: no registry, no
// transparency log, no clock.
package signature

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

const policyName = "signature"

// Check implements gate.Check. What it decided it keeps, so that one is made for a process.
type Check struct {
	memo *memo
	// judged is held while an image with some evidence is judged, and all of it while one with
	// much is.
	judged *semaphore.Weighted
}

// New makes the check.
func New() *Check { return &Check{memo: newMemo(), judged: semaphore.NewWeighted(limits.Judged)} }

// Collectors returns the check's metrics, for registration.
func (c *Check) Collectors() []prometheus.Collector { return []prometheus.Collector{c.memo.asked} }

// Needs says what the decision over an image takes of the registry; with false not even
// its digest, and nothing has to be asked.
func Needs(cfg gate.Config, image gate.Image) (gate.Want, bool) {
	if image.Invalid != "" {
		return gate.Want{}, false
	}
	rule, ok := cfg.RuleFor(image.Repository)
	if !ok || rule.RequireDigest && !image.Pinned || rule.Require.None && len(rule.Attestations) == 0 {
		return gate.Want{}, false
	}
	// That an image is no index shows only when its children are asked for; then its own
	// signatures count.
	want := gate.Want{Signatures: !rule.Require.None, Children: !rule.Require.None && rule.ByChildren}
	for _, a := range rule.Attestations {
		want.Predicates = append(want.Predicates, a.PredicateType)
	}
	want.Predicates = sorted(want.Predicates)
	return want, true
}

// Needed says whether the decision over an image takes anything of the registry.
func Needed(cfg gate.Config, image gate.Image) bool {
	_, ok := Needs(cfg, image)
	return ok
}

// Enough says whether what was fetched of an image so far satisfies every Gate, so that
// older formats need not be looked for. It never is where a scan is asked for: the
// newest one decides, and it may be in the format that was not looked at. Nor is it where
// children count and none are known.
func (c *Check) Enough(ctx context.Context, configs []gate.Config, image *gate.Image) bool {
	for _, cfg := range configs {
		want, ok := Needs(cfg, *image)
		if !ok {
			continue
		}
		if slices.ContainsFunc(want.Predicates, isScan) || want.Children && len(image.Children) == 0 {
			return false
		}
		r := c.newRun(ctx, &gate.Input{Gate: cfg})
		r.judge(image)
		if len(r.findings.Deny)+len(r.findings.Undecided) > 0 {
			return false
		}
	}
	return true
}

// Evaluate judges every image of the input.
func (c *Check) Evaluate(ctx context.Context, in *gate.Input) gate.Findings {
	r := c.newRun(ctx, in)
	for i := range in.Images {
		r.judge(&in.Images[i])
	}
	return r.findings
}

// run is one evaluation.
type run struct {
	ctx       context.Context
	in        *gate.Input
	check     *Check
	verifiers map[authorityID]readyVerifier
	// what is judged, and where in the Gate stands by whom it has to be signed, for messages.
	what, where string
	// unsure says that a policy failed, be it for lack of time.
	unsure   bool
	findings gate.Findings
}

func (c *Check) newRun(ctx context.Context, in *gate.Input) *run {
	return &run{
		ctx: ctx, in: in, check: c, verifiers: map[authorityID]readyVerifier{}, what: "image", where: "spec.images of gate " + in.Gate.Name,
	}
}

func (r *run) judge(image *gate.Image) {
	const untrusted = gate.ImageUntrusted
	if image.Invalid != "" {
		r.deny(image, untrusted, "image reference cannot be read: "+image.Invalid, "name the image as registry/repository:tag or registry/repository@sha256:…")
		return
	}
	rule, ok := r.in.Gate.RuleFor(image.Repository)
	switch {
	case !ok && r.in.Gate.DenyUnmatched:
		r.deny(image, untrusted,
			fmt.Sprintf("no image rule of gate %s matches %s", r.in.Gate.Name, image.Repository),
			"use an image from a repository that the gate knows, or have its owner add a rule to spec.images")
	case !ok:
		r.result(image, gate.ImageResult{Outcome: gate.ImageAllowed})
	case rule.RequireDigest && !image.Pinned:
		r.deny(image, untrusted,
			fmt.Sprintf("image is named by tag alone, and gate %s demands a digest (requireDigest of rule %s)", r.in.Gate.Name, rule.Match),
			"name the image as "+image.Repository+"@sha256:…")
	case rule.Require.None && len(rule.Attestations) == 0:
		r.result(image, gate.ImageResult{Outcome: gate.ImageAllowed})
	case image.Unavailable != "":
		r.undecided(image, "signatures of the image could not be read: "+image.Unavailable, cmp.Or(image.Remedy, "try again once the registry answers"))
	default:
		r.verify(image, rule)
	}
}

func (r *run) verify(image *gate.Image, rule gate.ImageRule) {
	r.disagreement(image)
	d, err := newDigest(image.Digest)
	if err != nil {
		r.undecided(image, "the image's digest is not known: "+err.Error(), "try again; if it stays, report it with the Gate and the image")
		return
	}
	j := judgement{image: image, rule: rule, digest: d}
	defer r.check.enter(r.ctx, image)()
	key := keyOf(image, rule, r.what)
	known := false
	if j.reached, known = r.check.memo.get(key); !known {
		r.reach(&j)
	}
	if r.ctx.Err() != nil {
		r.undecided(image, "verifying signatures took too long", "remove signatures that nobody needs from the registry, or authorities from the rule")
		return
	}
	if !known && !r.unsure && len(j.undecided) == 0 {
		r.check.memo.put(key, j.reached)
	}
	r.conclude(&j)
}

// disagreement warns of a tag that names another image than the digest beside it: who reads
// the tag, in a review or in a list of what runs, takes the one for the other.
func (r *run) disagreement(image *gate.Image) {
	if image.TagDigest == "" || image.TagDigest == image.Digest {
		return
	}
	r.findings.Warn = append(r.findings.Warn, r.at(image, gate.SeverityLow, said{
		message: fmt.Sprintf("tag %s stands for %s in the registry; what is judged and pulled is the digest beside it, %s", image.Tag, image.TagDigest, image.Digest),
		remedy:  "name the tag of the image that is meant, or leave the tag out",
	})...)
}

// enter waits for the turn of an image with some evidence, or with much, until ctx is over,
// which then ends its judgement too. The caller has to leave.
func (c *Check) enter(ctx context.Context, image *gate.Image) (leave func()) {
	bytes := 0
	all := [][]gate.Signature{image.Signatures, image.Attestations}
	for i := range image.Children {
		all = append(all, image.Children[i].Signatures)
	}
	for _, list := range all {
		for i := range list {
			at := &list[i]
			bytes += len(at.Bundle) + len(at.Payload) + len(at.Base64) + len(at.Certificate) + len(at.RekorBundle) + len(at.Timestamp)
		}
	}
	share := int64(1)
	switch {
	case c.judged == nil || bytes < limits.SmallEvidence:
		return func() {}
	case bytes >= limits.LargeEvidence:
		share = limits.Judged
	}
	if c.judged.Acquire(ctx, share) != nil {
		return func() {}
	}
	return func() { c.judged.Release(share) }
}

// reach decides.
func (r *run) reach(j *judgement) {
	r.unsure = false
	held := readEvidence(r.ctx, j.image.Signatures, j.image.Attestations)
	switch {
	case j.rule.Require.None:
	case j.rule.ByChildren && len(j.image.Children) > 0:
		r.children(j)
	default:
		r.signatures(j, &held)
	}
	for _, a := range j.rule.Attestations {
		r.attestation(j, a, &held)
	}
}

// signatures of the image itself.
func (r *run) signatures(j *judgement, held *evidence) {
	j.authorities, j.identities = r.signed(j, held, r.what, j.digest)
}

// signed says by whom what, the image or a child of an index, is signed; none where that
// does not satisfy the rule.
func (r *run) signed(j *judgement, held *evidence, what string, d digest) (authorities, identities []string) {
	t := r.count(j.rule, held, d)
	j.warnings = append(j.warnings, t.warnings...)
	switch {
	case t.satisfies(j.rule):
		return t.accepted, t.identities
	case t.couldSatisfy(j.rule):
		j.undecided = append(j.undecided, r.unsettled(t))
	default:
		j.deny = append(j.deny, t.said(j, what, len(held.signatures), d))
	}
	return nil, nil
}

// children holds every image of an index to the rule, and not the index: its digest is
// what was verified to consist of them, and each is pulled by it.
func (r *run) children(j *judgement) {
	for i := range j.image.Children {
		c := &j.image.Children[i]
		what := fmt.Sprintf("%s of the index, %s,", c.Platform, c.Digest)
		d, err := newDigest(c.Digest)
		if err != nil {
			j.undecided = append(j.undecided, said{message: what + " cannot be verified: " + err.Error(), remedy: "try again; if it stays, build the index anew"})
			continue
		}
		held := readEvidence(r.ctx, c.Signatures)
		authorities, identities := r.signed(j, &held, what, d)
		j.authorities, j.identities = append(j.authorities, authorities...), append(j.identities, identities...)
	}
}

// unsettled says what keeps the decision from being made: keys that cannot be used, and
// what may be asked for and was not read.
func (r *run) unsettled(t tally) said {
	reasons, remedies := slices.Clone(t.unknown), []string{}
	if len(reasons) > 0 {
		remedies = append(remedies, "make it readable and correct, see "+r.where)
	}
	if len(t.unread) > 0 {
		reasons = append(reasons, "what may be asked for is not read: "+shown(t.unread))
		remedies = append(remedies, "remove it from the repository, or store less in its place")
	}
	return said{message: strings.Join(reasons, "; "), remedy: strings.Join(remedies, "; ")}
}

// said of what, an image or a child of an index, that does not satisfy the rule.
func (t tally) said(j *judgement, what string, held int, d digest) said {
	if j.rule.Require.All && len(t.missing) == 0 && len(t.shared) > 0 {
		return said{
			outcome: gate.ImageUntrusted, message: t.complaint(j.rule, what),
			remedy: "have somebody else sign too, or give each of the authorities a key or an identity of its own",
		}
	}
	command := signCommand(t.keyed || !t.keyless, j.image.Repository+"@"+d.text)
	if held == 0 {
		return said{outcome: gate.ImageUnsigned, message: t.complaint(j.rule, what), remedy: "sign it: " + command}
	}
	return said{
		outcome: gate.ImageUntrusted, message: t.complaint(j.rule, what),
		remedy: fmt.Sprintf("the registry holds %s that no further authority accepts%s; sign with the right key: %s",
			plural(held, "signature"), because(t.reasons), command),
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func signCommand(keyed bool, ref string) string {
	if keyed {
		return "cosign sign --key cosign.key " + ref
	}
	return "cosign sign " + ref
}

func (r *run) result(image *gate.Image, result gate.ImageResult) {
	result.Image, result.Digest = image.Ref, image.Digest
	r.findings.Images = append(r.findings.Images, result)
}

func (r *run) deny(image *gate.Image, outcome gate.ImageOutcome, message, remedy string) {
	r.result(image, gate.ImageResult{Outcome: outcome})
	r.findings.Deny = append(r.findings.Deny, r.at(image, gate.SeverityCritical, said{message: message, remedy: remedy})...)
}

func (r *run) undecided(image *gate.Image, message, remedy string) {
	r.result(image, gate.ImageResult{Outcome: gate.ImageError})
	r.findings.Undecided = append(r.findings.Undecided, r.at(image, gate.SeverityCritical, said{message: message, remedy: remedy})...)
}

// at makes a finding for each place that names the image. An image without a place is
// put on the object that is judged, so that it cannot pass unseen.
func (r *run) at(image *gate.Image, severity string, s said) []gate.Finding {
	locations := image.Locations
	if len(locations) == 0 {
		locations = []gate.Location{{Object: r.in.Object.String()}}
	}
	out := make([]gate.Finding, 0, len(locations))
	for _, l := range locations {
		out = append(out, gate.Finding{
			Policy: policyName, Severity: severity, Object: l.Object, Path: l.Path, Message: s.message, Remedy: s.remedy,
		})
	}
	return out
}
