// Package promotion is the check that images bring proof of having passed another
// environment. It works on what was gathered and makes no call of its own.
package promotion

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
)

const policyName = "promotion"

// Verifier says who signed the statements that the registry holds beside an image.
type Verifier interface {
	Statements(ctx context.Context, authorities []gate.Authority, image *gate.Image, predicateType string) gate.Attested
}

// Check implements gate.Check.
type Check struct{ verifier Verifier }

// New makes the check.
func New(v Verifier) *Check { return &Check{verifier: v} }

// Needs says what the decision over an image takes of the registry, with false nothing.
// Images that a rule allows without looking need no proof, and those that no rule allows
// are denied without one.
func Needs(cfg gate.Config, image gate.Image) (gate.Want, bool) {
	if !concerns(cfg, image) || unmatched(cfg, image) {
		return gate.Want{}, false
	}
	return gate.Want{Predicates: []string{evidence.PredicateType}}, true
}

func concerns(cfg gate.Config, image gate.Image) bool {
	return cfg.Promotion != nil && LookedAt(cfg, image)
}

// LookedAt says whether a Gate looks at an image at all: of one that a rule allows without
// looking, nobody asks for proof, and none is given.
func LookedAt(cfg gate.Config, image gate.Image) bool {
	if image.Invalid != "" {
		return false
	}
	rule, ok := cfg.RuleFor(image.Repository)
	return !ok || !rule.Require.None || len(rule.Attestations) > 0
}

func unmatched(cfg gate.Config, image gate.Image) bool {
	_, ok := cfg.RuleFor(image.Repository)
	return !ok && cfg.DenyUnmatched
}

// Enough says whether what was fetched of an image so far is the proof that the Gates ask
// for, at a time, so that older formats need not be looked for.
func (c *Check) Enough(ctx context.Context, configs []gate.Config, image *gate.Image, now int64) bool {
	for _, cfg := range configs {
		if _, ok := Needs(cfg, *image); !ok {
			continue
		}
		if c.judge(ctx, cfg, image, now).kind != proven {
			return false
		}
	}
	return true
}

// Evaluate judges every image of the input.
func (c *Check) Evaluate(ctx context.Context, in *gate.Input) gate.Findings {
	var out gate.Findings
	for i := range in.Images {
		image := &in.Images[i]
		if !concerns(in.Gate, *image) {
			continue
		}
		s := c.judge(ctx, in.Gate, image, in.Now)
		switch s.kind {
		case proven:
			if out.Promoted == nil {
				out.Promoted = map[string]string{}
			}
			out.Promoted[image.Ref] = in.Gate.Promotion.Environment
		case refused:
			out.Deny = append(out.Deny, at(in, image, gate.SeverityCritical, s.said)...)
		default:
			out.Undecided = append(out.Undecided, at(in, image, gate.SeverityCritical, s.said)...)
		}
		for _, w := range s.warnings {
			out.Warn = append(out.Warn, at(in, image, gate.SeverityMedium, w)...)
		}
	}
	return out
}

type kind int

const (
	undecided kind = iota
	refused
	proven
)

type said struct{ message, remedy string }

// judged is what was decided over one image.
type judged struct {
	kind kind
	said
	warnings []said
}

func undecidedFor(message, remedy string) judged {
	return judged{kind: undecided, said: said{message, remedy}}
}

func tooLate(authorities string) judged {
	return undecidedFor("verifying evidence took too long", "remove evidence that nobody needs from the registry, or authorities from "+authorities)
}

func refusedFor(message, remedy string) judged {
	return judged{kind: refused, said: said{message, remedy}}
}

func (c *Check) judge(ctx context.Context, cfg gate.Config, image *gate.Image, now int64) judged {
	demand := cfg.Promotion
	switch {
	case unmatched(cfg, *image):
		return refusedFor(
			fmt.Sprintf("no evidence of environment %s was looked for: no image rule of gate %s matches %s", demand.Environment, cfg.Name, image.Repository),
			"use an image from a repository that the gate knows, or have its owner add a rule to spec.images")
	case image.Unavailable != "":
		return undecidedFor(
			fmt.Sprintf("evidence of environment %s could not be read: %s", demand.Environment, image.Unavailable),
			cmp.Or(image.Remedy, "try again once the registry answers"))
	}
	a := c.verifier.Statements(ctx, demand.Authorities, image, evidence.PredicateType)
	if a.Late {
		return tooLate("spec.requirePromotionFrom")
	}
	var faults []fault
	var proofs []judged
	for _, s := range a.Accepted {
		summary, f := read(s.Payload, demand, now)
		if f.rank == none {
			proofs = append(proofs, passed(demand.Environment, s, summary))
			continue
		}
		faults = append(faults, f)
	}
	if len(proofs) > 0 {
		return slices.MinFunc(proofs, fewerWarnings)
	}
	returned, own := c.returning(ctx, cfg, image, a.Accepted, now)
	if returned != nil && returned.kind == proven {
		return *returned
	}
	if s, open := open(cfg, a, now); open {
		return s
	}
	if returned != nil {
		return *returned
	}
	return complaint{cfg: cfg, image: image, attested: a, faults: faults, own: own}.refuse()
}

// open says whether an authority that could not be asked, or something that was not read,
// may be the proof.
func open(cfg gate.Config, a gate.Attested, now int64) (judged, bool) {
	if len(a.Unread) > 0 {
		return undecidedFor("what may be the evidence is not read: "+strings.Join(a.Unread[:min(len(a.Unread), shownReasons)], "; "),
			"remove it from the repository, or store less in its place"), true
	}
	return unusable(cfg, cfg.Promotion, "spec.requirePromotionFrom.authorities", a, now)
}

// unusable says whether an authority of field that could not be asked may have signed what
// meets the demand.
func unusable(cfg gate.Config, demand *gate.Promotion, field string, a gate.Attested, now int64) (judged, bool) {
	mayPass := slices.ContainsFunc(a.Strangers, func(s gate.Statement) bool {
		_, f := read(s.Payload, demand, now)
		return f.rank == none
	})
	if len(a.Unusable) == 0 || !mayPass {
		return judged{}, false
	}
	return undecidedFor(strings.Join(a.Unusable, "; "), "make it readable and correct, see "+field+" of gate "+cfg.Name), true
}

func passed(environment string, s gate.Statement, summary evidence.Summary) judged {
	out := judged{kind: proven}
	for _, lack := range s.Lacks {
		out.warnings = append(out.warnings, said{lack + ", for evidence", "have its signatures logged, and take the exception out of the authority"})
	}
	for _, e := range summary.Exemptions {
		out.warnings = append(out.warnings, said{
			fmt.Sprintf("image passed environment %s by Exemption %.80q from %.80q: %.300s", environment, e.Name, e.Policy, e.Message),
			"correct what was exempted there, and have the image attested anew",
		})
	}
	return out
}

// fewerWarnings picks the proof with the least to warn of, the same one whatever order the
// registry lists them in.
func fewerWarnings(a, b judged) int {
	byText := func(a, b said) int { return cmp.Compare(a.message, b.message) }
	return cmp.Or(cmp.Compare(len(a.warnings), len(b.warnings)), slices.CompareFunc(a.warnings, b.warnings, byText))
}

// at makes a finding for each place that names the image, or for the object that is judged
// where none does.
func at(in *gate.Input, image *gate.Image, severity string, s said) []gate.Finding {
	locations := image.Locations
	if len(locations) == 0 {
		locations = []gate.Location{{Object: in.Object.String()}}
	}
	out := make([]gate.Finding, 0, len(locations))
	for _, l := range locations {
		out = append(out, gate.Finding{
			Policy: policyName, Severity: severity, Object: l.Object, Path: l.Path, Message: s.message, Remedy: s.remedy,
		})
	}
	return out
}
