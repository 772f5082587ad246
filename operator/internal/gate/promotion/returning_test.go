package promotion_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/promotion"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
)

// Evidence of the Gate's own environment makes up for the age of that of the environment
// before it, and for nothing else.
func TestCheck_WhatRanHereBeforeMayComeBack(t *testing.T) {
	e2e, prod := keys()[0], keys()[1]
	before := func(change func(*evidence.Summary)) gate.Signature {
		return signed(t, e2e, false, passed(func(s *evidence.Summary) {
			s.Time = now.AddDate(-1, 0, 0)
			if change != nil {
				change(s)
			}
		}))
	}
	here := func(change func(*evidence.Summary)) evidence.Summary {
		return passed(func(s *evidence.Summary) {
			s.Verifier, s.Time, s.Policy.Digest = evidence.Verifier("prod"), now.AddDate(-1, 0, 1), other
			if change != nil {
				change(s)
			}
		})
	}
	ran := signed(t, prod, false, here(nil))
	for name, c := range map[string]struct {
		held   []gate.Signature
		change func(*gate.Input)
		want   gate.Outcome
		says   string
	}{
		"too old, and it ran here":             {held: []gate.Signature{before(nil), ran}, want: gate.OutcomeAllow, says: `"violations":[]`},
		"too old, and it ran here by the .att": {held: []gate.Signature{before(nil), signed(t, prod, true, here(nil))}, want: gate.OutcomeAllow},
		"too old, and it never ran here":       {held: []gate.Signature{before(nil)}, want: gate.OutcomeDeny, says: "it has no evidence of environment prod itself by spec.attest.authorities of gate prod"},
		"too old, and it failed here": {held: []gate.Signature{before(nil), signed(t, prod, false, here(func(s *evidence.Summary) { s.Result = evidence.Failed }))},
			want: gate.OutcomeDeny, says: "evidence of environment prod of 2025-06-02T12:00:00Z says that the image failed there"},
		"too old, and it will have run here": {held: []gate.Signature{before(nil), signed(t, prod, false, here(func(s *evidence.Summary) { s.Time = now.AddDate(1, 0, 0) }))},
			want: gate.OutcomeDeny, says: "is dated in the future"},
		"too old, and another digest ran here": {held: []gate.Signature{before(nil), signed(t, prod, false, here(func(s *evidence.Summary) { s.Subjects = []string{other} }))},
			want: gate.OutcomeDeny, says: "it has no evidence of environment prod itself"},
		"too old, and it ran here, says the key of e2e": {held: []gate.Signature{before(nil), signed(t, e2e, false, here(nil))},
			want: gate.OutcomeDeny, says: "it has no evidence of environment prod itself"},
		"too old, and it ran elsewhere": {held: []gate.Signature{before(nil), signed(t, prod, false, here(func(s *evidence.Summary) { s.Verifier = evidence.Verifier("staging") }))},
			want: gate.OutcomeDeny, says: "it has no evidence of environment prod itself"},
		"too old, by the key that signs for here": {held: []gate.Signature{signed(t, prod, false, passed(nil)), ran}, want: gate.OutcomeDeny, says: "signed by nobody"},
		"none of e2e, and it ran here":            {held: []gate.Signature{ran}, want: gate.OutcomeDeny, says: "image has no evidence that it passed environment e2e"},
		"too old and revoked, and it ran here": {held: []gate.Signature{before(func(s *evidence.Summary) { s.Policy.Digest = other }), ran},
			want: gate.OutcomeDeny, says: "is not among the policyDigests"},
		"a failure that is too old, and it ran here": {held: []gate.Signature{before(func(s *evidence.Summary) { s.Result = evidence.Failed }), ran},
			want: gate.OutcomeDeny, says: "says that the image failed there"},
		"too old, with nobody to say that it ran here": {held: []gate.Signature{before(nil), ran}, want: gate.OutcomeDeny, says: "is older than 720h",
			change: func(in *gate.Input) { in.Gate.Promotion.Own = nil }},
		"too old, and the key of here cannot be read": {held: []gate.Signature{before(nil), ran}, want: gate.OutcomeError, says: "no such Secret",
			change: func(in *gate.Input) {
				in.Gate.Promotion.Own = []gate.Authority{{Name: "prod-attestor", Unavailable: "no such Secret"}}
			}},
		"too old, and the key of here cannot be read, where nothing says that it ran here": {held: []gate.Signature{before(nil)}, want: gate.OutcomeDeny,
			change: func(in *gate.Input) {
				in.Gate.Promotion.Own = []gate.Authority{{Name: "prod-attestor", Unavailable: "no such Secret"}}
			}},
		"too old, beside what was not read":                  {held: []gate.Signature{before(nil), {Unread: &gate.Unread{Reason: "too large"}}}, want: gate.OutcomeError, says: "too large"},
		"too old, and it ran here, beside what was not read": {held: []gate.Signature{before(nil), ran, {Unread: &gate.Unread{Reason: "too large"}}}, want: gate.OutcomeAllow},
		"in time, while the key of here cannot be read": {held: []gate.Signature{signed(t, e2e, false, passed(nil))}, want: gate.OutcomeAllow,
			change: func(in *gate.Input) {
				in.Gate.Promotion.Own = []gate.Authority{{Name: "prod-attestor", Unavailable: "no such Secret"}}
			}},
		"too old, and it ran here by an exemption": {held: []gate.Signature{before(nil), signed(t, prod, false, here(func(s *evidence.Summary) {
			s.Exemptions = []evidence.Exemption{{Name: "hotfix", Policy: "restricted", Message: "privileged"}}
		}))}, want: gate.OutcomeWarn, says: `image passed environment prod by Exemption \"hotfix\"`},
	} {
		t.Run(name, func(t *testing.T) {
			decide := func(held []gate.Signature) (gate.Verdict, bool) {
				in := input(held...)
				in.Gate.Promotion.Own = []gate.Authority{{Name: "prod-attestor", PublicKeyPEM: prod.PublicPEM}}
				if c.change != nil {
					c.change(in)
				}
				check := promotion.New(signature.New())
				return gate.NewChain(check).Decide(t.Context(), in), check.Enough(t.Context(), []gate.Config{in.Gate}, &in.Images[0], in.Now)
			}
			v, enough := decide(c.held)
			if v.Outcome != c.want || !strings.Contains(string(v.Canonical()), c.says) || enough == v.Outcome.Blocks() {
				t.Errorf("want %s, %q; enough: %t: %s", c.want, c.says, enough, v.Canonical())
			}
			reversed := slices.Clone(c.held)
			slices.Reverse(reversed)
			if other, _ := decide(reversed); other.Digest() != v.Digest() {
				t.Errorf("in another order: %s, not %s", other.Canonical(), v.Canonical())
			}
		})
	}
}
