package promotion_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/promotion"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

var (
	now   = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	app   = testkit.DigestOf("app")
	other = testkit.DigestOf("other")
	rules = testkit.DigestOf("rules")
)

// keys are that of e2e and that of ci: making one takes a fifth of a second.
var keys = sync.OnceValue(func() [2]*testkit.Key {
	var out [2]*testkit.Key
	for i := range out {
		k, err := testkit.NewKey()
		if err != nil {
			panic(err)
		}
		out[i] = k
	}
	return out
})

func passed(change func(*evidence.Summary)) evidence.Summary {
	s := evidence.Summary{
		Subjects: []string{app}, Verifier: evidence.Verifier("e2e"), Time: now.Add(-time.Hour), Resource: "oci://registry.example.com/shop/app",
		Policy: evidence.Resource{URI: "https://sluice.dev/gates/e2e", Digest: rules}, Result: evidence.Passed,
	}
	if change != nil {
		change(&s)
	}
	return s
}

// signed is a statement in a bundle, or under the .att tag.
func signed(t testing.TB, k *testkit.Key, tag bool, s evidence.Summary) gate.Signature {
	t.Helper()
	raw, err := s.Statement()
	if err != nil {
		t.Fatal(err)
	}
	return sealed(t, k, tag, raw)
}

func sealed(t testing.TB, k *testkit.Key, tag bool, raw []byte) gate.Signature {
	t.Helper()
	const mediaType = "application/vnd.in-toto+json"
	out, make := gate.Signature{Format: gate.FormatBundle}, k.SignPayload
	if tag {
		out.Format, make = gate.FormatAttestationTag, k.SignEnvelope
	}
	content, err := make(mediaType, raw)
	if err != nil {
		t.Fatal(err)
	}
	if tag {
		out.Payload = content
	} else {
		out.Bundle = content
	}
	return out
}

func input(held ...gate.Signature) *gate.Input {
	return &gate.Input{
		Now:    now.Unix(),
		Object: gate.ObjectRef{Kind: "Workload", Namespace: "shop", Name: "app"},
		Gate: gate.Config{
			Name: "prod", Environment: "prod", Mode: gate.Enforce, DenyUnmatched: true,
			Images: []gate.ImageRule{
				{Match: "registry.example.com/shop/**", Require: gate.Requirement{Count: 1}},
				{Match: "registry.example.com/base/**", Require: gate.Requirement{None: true}},
			},
			Promotion: &gate.Promotion{
				Environment: "e2e", Within: int64((720 * time.Hour).Seconds()), PolicyDigests: []string{rules},
				Authorities: []gate.Authority{{Name: "e2e-attestor", PublicKeyPEM: keys()[0].PublicPEM}},
			},
		},
		Images: []gate.Image{{
			Ref: "registry.example.com/shop/app:1", Repository: "registry.example.com/shop/app", Tag: "1", Digest: app, Attestations: held,
			Locations: []gate.Location{{Object: "Deployment/shop/app", Path: "spec.template.spec.containers[0].image"}},
		}},
	}
}

func TestCheck_OnlyEvidenceOfTheRightKindIsProof(t *testing.T) {
	e2e, ci := keys()[0], keys()[1]
	ok := signed(t, e2e, false, passed(nil))
	of := func(change func(*evidence.Summary)) gate.Signature { return signed(t, e2e, false, passed(change)) }
	for name, c := range map[string]struct {
		held   []gate.Signature
		change func(*gate.Input)
		want   gate.Outcome
		says   string
	}{
		"evidence in a bundle":            {held: []gate.Signature{ok}, want: gate.OutcomeAllow},
		"evidence under the .att tag":     {held: []gate.Signature{signed(t, e2e, true, passed(nil))}, want: gate.OutcomeAllow},
		"beside a forged one":             {held: []gate.Signature{signed(t, ci, false, passed(nil)), ok}, want: gate.OutcomeAllow},
		"beside one that says it failed":  {held: []gate.Signature{of(func(s *evidence.Summary) { s.Result = evidence.Failed }), ok}, want: gate.OutcomeAllow},
		"none at all":                     {want: gate.OutcomeDeny, says: "image has no evidence that it passed environment e2e"},
		"by the key of ci, naming e2e":    {held: []gate.Signature{signed(t, ci, false, passed(nil))}, want: gate.OutcomeDeny, says: "signed by nobody that spec.requirePromotionFrom.authorities of gate prod names"},
		"of another digest":               {held: []gate.Signature{of(func(s *evidence.Summary) { s.Subjects = []string{other} })}, want: gate.OutcomeDeny, says: "is about another digest"},
		"of ci":                           {held: []gate.Signature{of(func(s *evidence.Summary) { s.Verifier = evidence.Verifier("ci") })}, want: gate.OutcomeDeny, says: "is of environment ci, and not of environment e2e"},
		"of a verifier that looks alike":  {held: []gate.Signature{of(func(s *evidence.Summary) { s.Verifier = "https://sluice.dev.example.com/environments/e2e" })}, want: gate.OutcomeDeny, says: "is of verifier"},
		"that says it failed":             {held: []gate.Signature{of(func(s *evidence.Summary) { s.Result = evidence.Failed })}, want: gate.OutcomeDeny, says: "says that the image failed there"},
		"as old as it may be":             {held: []gate.Signature{of(func(s *evidence.Summary) { s.Time = now.Add(-720 * time.Hour) })}, want: gate.OutcomeAllow},
		"a second too old":                {held: []gate.Signature{of(func(s *evidence.Summary) { s.Time = now.Add(-720*time.Hour - time.Second) })}, want: gate.OutcomeDeny, says: "is older than 720h"},
		"by a clock that is a bit ahead":  {held: []gate.Signature{of(func(s *evidence.Summary) { s.Time = now.Add(limits.EvidenceSkew) })}, want: gate.OutcomeAllow},
		"from the future":                 {held: []gate.Signature{of(func(s *evidence.Summary) { s.Time = now.Add(limits.EvidenceSkew + time.Second) })}, want: gate.OutcomeDeny, says: "is dated in the future"},
		"under a policy that was revoked": {held: []gate.Signature{of(func(s *evidence.Summary) { s.Policy.Digest = other })}, want: gate.OutcomeDeny, says: "is not among the policyDigests"},
		"under no policy that is named":   {held: []gate.Signature{of(func(s *evidence.Summary) { s.Policy.Digest = "" })}, want: gate.OutcomeDeny, says: "no policy that it names"},
		"that cannot be read": {held: []gate.Signature{sealed(t, e2e, false, []byte(`{"_type":"https://in-toto.io/Statement/v1","predicateType":"`+evidence.PredicateType+`","subject":[{"digest":{"sha256":"`+
			strings.TrimPrefix(app, "sha256:")+`"}}],"predicate":{}}`))}, want: gate.OutcomeDeny, says: "cannot be read"},
		"given by an exemption": {held: []gate.Signature{of(func(s *evidence.Summary) {
			s.Exemptions = []evidence.Exemption{{Name: "hotfix", Policy: "signature", Message: "not signed"}}
		})}, want: gate.OutcomeWarn, says: `by Exemption \"hotfix\" from \"signature\"`},
		"while the registry is down": {change: func(in *gate.Input) { in.Images[0].Unavailable = "503" }, want: gate.OutcomeError, says: "could not be read: 503"},
		"while the key cannot be read": {held: []gate.Signature{ok}, want: gate.OutcomeError, says: "no such Secret",
			change: func(in *gate.Input) {
				in.Gate.Promotion.Authorities = []gate.Authority{{Name: "e2e-attestor", Unavailable: "no such Secret"}}
			}},
		"while the key cannot be read, and it would not do": {held: []gate.Signature{of(func(s *evidence.Summary) { s.Result = evidence.Failed })}, want: gate.OutcomeDeny,
			change: func(in *gate.Input) {
				in.Gate.Promotion.Authorities = []gate.Authority{{Name: "e2e-attestor", Unavailable: "no such Secret"}}
			}},
		"that was not read": {held: []gate.Signature{{Unread: &gate.Unread{Reason: "too large"}}}, want: gate.OutcomeError, says: "too large"},
		"none, where a rule allows the image without looking": {want: gate.OutcomeAllow,
			change: func(in *gate.Input) { in.Images[0].Repository = "registry.example.com/base/pause" }},
		"none, where no rule matches": {want: gate.OutcomeDeny, says: "no image rule of gate prod matches",
			change: func(in *gate.Input) { in.Images[0].Repository = "registry.example.com/elsewhere/app" }},
		"none, where no rule has to match": {want: gate.OutcomeDeny, says: "image has no evidence",
			change: func(in *gate.Input) {
				in.Images[0].Repository, in.Gate.DenyUnmatched = "registry.example.com/elsewhere/app", false
			}},
		"any age and policy, where the Gate does not say": {held: []gate.Signature{of(func(s *evidence.Summary) { s.Time, s.Policy.Digest = now.AddDate(-9, 0, 0), other })}, want: gate.OutcomeAllow,
			change: func(in *gate.Input) { in.Gate.Promotion.Within, in.Gate.Promotion.PolicyDigests = 0, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(c.held...)
			if c.change != nil {
				c.change(in)
			}
			check := promotion.New(signature.New())
			v := gate.NewChain(check).Decide(t.Context(), in)
			if v.Outcome != c.want || !strings.Contains(string(v.Canonical()), c.says) {
				t.Errorf("want %s, %q: %s", c.want, c.says, v.Canonical())
			}
			for _, f := range slices.Concat(v.Violations, v.Warnings) {
				if f.Policy != "promotion" || f.Remedy == "" || f.Path == "" {
					t.Errorf("finding %+v", f)
				}
				if environment, awaited := promotion.Awaited(f); awaited != strings.HasPrefix(c.says, "image has no evidence") || awaited && environment != "e2e" {
					t.Errorf("evidence of %q is awaited: %t, by %+v", environment, awaited, f)
				}
			}
			if _, needed := promotion.Needs(in.Gate, in.Images[0]); needed {
				if enough := check.Enough(t.Context(), []gate.Config{in.Gate}, &in.Images[0], in.Now); enough == v.Outcome.Blocks() {
					t.Errorf("it is enough: %t", enough)
				}
			}
		})
	}
}

// What is nearest to being proof is what a user has to hear of.
func TestCheck_TellsOfTheStatementThatComesClosest(t *testing.T) {
	e2e := keys()[0]
	v := gate.NewChain(promotion.New(signature.New())).Decide(t.Context(), input(
		signed(t, e2e, false, passed(func(s *evidence.Summary) { s.Verifier = evidence.Verifier("ci") })),
		signed(t, keys()[1], false, passed(nil)),
		signed(t, e2e, false, passed(func(s *evidence.Summary) { s.Result = evidence.Failed })),
		signed(t, e2e, false, passed(func(s *evidence.Summary) { s.Time = now.AddDate(-1, 0, 0) })),
	))
	if len(v.Violations) != 1 || !strings.Contains(v.Violations[0].Message, "older than") || strings.Contains(v.Violations[0].Message, "ci") {
		t.Errorf("%s", v.Canonical())
	}
}

// The same key signs images and evidence here: that it vouched for a run is not that it
// vouched for the image.
func TestCheck_EvidenceIsNoSignatureAndASignatureIsNoEvidence(t *testing.T) {
	in := input(signed(t, keys()[0], false, passed(nil)))
	in.Gate.Images[0].Authorities = in.Gate.Promotion.Authorities
	signatures := signature.New()
	v := gate.NewChain(signatures, promotion.New(signatures)).Decide(t.Context(), in)
	if v.Outcome != gate.OutcomeDeny || len(v.Violations) != 1 || v.Violations[0].Policy != "signature" || v.Images[0].PromotedFrom != "e2e" {
		t.Errorf("%s", v.Canonical())
	}
	bundle, err := keys()[0].Bundle(app, testkit.PredicateSign, nil)
	if err != nil {
		t.Fatal(err)
	}
	in.Images[0].Attestations, in.Images[0].Signatures = nil, []gate.Signature{{Format: gate.FormatBundle, Bundle: bundle}}
	v = gate.NewChain(signatures, promotion.New(signatures)).Decide(t.Context(), in)
	if v.Outcome != gate.OutcomeDeny || len(v.Violations) != 1 || v.Violations[0].Policy != "promotion" || v.Images[0].PromotedFrom != "" {
		t.Errorf("%s", v.Canonical())
	}
}

func TestCheck_IsExemptedByItsName(t *testing.T) {
	in := input()
	in.Exemptions = []gate.Exemption{{
		Name: "hotfix", Reason: "incident 4711", Expires: "2099-01-01T00:00:00Z", Until: now.AddDate(9, 0, 0).Unix(), Gates: []string{"prod"}, Policies: []string{"promotion"},
		Images: []string{"registry.example.com/shop/app@sha256:*"},
	}}
	v := gate.NewChain(promotion.New(signature.New())).Decide(t.Context(), in)
	if v.Outcome != gate.OutcomeAllow || len(v.Exemptions) != 1 {
		t.Errorf("%s", v.Canonical())
	}
}

// The order in which a registry lists statements says nothing, and a Gate that demands no
// promotion has the digest that it always had.
func TestCheck_DoesNotDependOnTheOrderInTheRegistry(t *testing.T) {
	held := []gate.Signature{
		signed(t, keys()[0], false, passed(nil)),
		signed(t, keys()[0], true, passed(func(s *evidence.Summary) { s.Exemptions = []evidence.Exemption{{Name: "a"}} })),
		signed(t, keys()[0], false, passed(func(s *evidence.Summary) { s.Exemptions = []evidence.Exemption{{Name: "b"}} })),
	}
	for _, drop := range []int{0, 1} {
		one := gate.NewChain(promotion.New(signature.New())).Decide(t.Context(), input(held[drop:]...))
		reversed := slices.Clone(held[drop:])
		slices.Reverse(reversed)
		two := gate.NewChain(promotion.New(signature.New())).Decide(t.Context(), input(reversed...))
		if one.Digest() != two.Digest() {
			t.Errorf("%s\n%s", one.Canonical(), two.Canonical())
		}
	}
	raw, err := json.Marshal(gate.Config{Name: "dev"})
	if err != nil || strings.Contains(string(raw), "Promotion") {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestCheck_OutOfTimeIsUndecided(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := input(signed(t, keys()[0], false, passed(nil)))
	if f := promotion.New(signature.New()).Evaluate(ctx, in); len(f.Undecided) != 1 || len(f.Deny) != 0 {
		t.Errorf("%+v", f)
	}
}

func BenchmarkCheck(b *testing.B) {
	in := input(signed(b, keys()[0], false, passed(nil)))
	check := promotion.New(signature.New())
	b.ReportAllocs()
	for b.Loop() {
		if f := check.Evaluate(b.Context(), in); len(f.Promoted) != 1 {
			b.Fatal(f)
		}
	}
}
