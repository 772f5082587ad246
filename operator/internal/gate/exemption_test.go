package gate_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

const (
	imageA  = "registry.example.com/shop/a"
	imageB  = "registry.example.com/shop/b"
	digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	instant = int64(1_800_000_000)
)

// pod is a Workload of two images, both of which a check denies.
func pod() (*gate.Input, found) {
	at := func(i int) gate.Location {
		return gate.Location{Object: "Deployment/shop/web", Path: fmt.Sprintf("spec.template.spec.containers[%d].image", i)}
	}
	in := &gate.Input{
		Gate: gate.Config{Name: "prod", Mode: gate.Enforce}, Now: instant,
		Object: gate.ObjectRef{APIVersion: "sluice.dev/v1beta1", Kind: "Workload", Name: "web", Namespace: "shop"},
		Images: []gate.Image{
			{Ref: imageA + ":1", Repository: imageA, Digest: digestA, Locations: []gate.Location{at(0)}},
			{Ref: imageB + ":1", Repository: imageB, Locations: []gate.Location{at(1)}},
		},
	}
	var f found
	for i := range in.Images {
		f.Deny = append(f.Deny, gate.Finding{Policy: "signature", Severity: "critical", Object: at(i).Object, Path: at(i).Path, Message: "no signature"})
		f.Images = append(f.Images, gate.ImageResult{Image: in.Images[i].Ref, Outcome: gate.ImageUnsigned})
	}
	return in, f
}

func hotfix() gate.Exemption {
	return gate.Exemption{
		Name: "hotfix", Reason: "incident 4711", Expires: "2027-01-15T08:00:01Z", Until: instant + 1,
		Gates: []string{"prod"}, Policies: []string{"signature"},
		Objects: []gate.ObjectPattern{{Kind: "Workload", Namespace: "shop", Name: "web"}},
	}
}

func TestExemption_CoversWhatItNamesAndNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gate.Exemption, *gate.Input)
		// covered findings of the two.
		covered int
	}{
		"the object, with every image of it": {func(*gate.Exemption, *gate.Input) {}, 2},
		"one of its images":                  {func(e *gate.Exemption, _ *gate.Input) { e.Images = []string{imageA} }, 1},
		"one by its digest":                  {func(e *gate.Exemption, _ *gate.Input) { e.Images = []string{imageA + "@" + digestA} }, 1},
		"another digest of it": {func(e *gate.Exemption, _ *gate.Input) {
			e.Images = []string{imageA + "@sha256:" + strings.Repeat("b", 64)}
		}, 0},
		"those whose digest is known":                       {func(e *gate.Exemption, _ *gate.Input) { e.Images = []string{"registry.example.com/shop/*@sha256:*"} }, 1},
		"both images by a pattern":                          {func(e *gate.Exemption, _ *gate.Input) { e.Images = []string{"registry.example.com/shop/*"} }, 2},
		"images alone, of any object":                       {func(e *gate.Exemption, _ *gate.Input) { e.Images, e.Objects = []string{imageB}, nil }, 1},
		"another image":                                     {func(e *gate.Exemption, _ *gate.Input) { e.Images = []string{imageA + "bc"} }, 0},
		"another image of the object, and another object's": {func(e *gate.Exemption, _ *gate.Input) { e.Images, e.Objects[0].Name = []string{imageA}, "other" }, 0},
		"another name":                                      {func(e *gate.Exemption, _ *gate.Input) { e.Objects[0].Name = "we" }, 0},
		"a name by a pattern":                               {func(e *gate.Exemption, _ *gate.Input) { e.Objects[0].Name = "w*" }, 2},
		"another namespace":                                 {func(e *gate.Exemption, _ *gate.Input) { e.Objects[0].Namespace = "sho" }, 0},
		"the child and not what is judged":                  {func(e *gate.Exemption, _ *gate.Input) { e.Objects[0].Kind = "Deployment" }, 0},
		"another policy":                                    {func(e *gate.Exemption, _ *gate.Input) { e.Policies = []string{"sign", "signature/x"} }, 0},
		"another gate":                                      {func(e *gate.Exemption, _ *gate.Input) { e.Gates = []string{"pro"} }, 0},
		"nothing at all":                                    {func(e *gate.Exemption, _ *gate.Input) { e.Objects = nil }, 0},
		"at the moment that it ends":                        {func(_ *gate.Exemption, in *gate.Input) { in.Now++ }, 0},
		"long after":                                        {func(_ *gate.Exemption, in *gate.Input) { in.Now += 1e9 }, 0},
		"two images at one place, of which it names one": {func(e *gate.Exemption, in *gate.Input) {
			e.Images = []string{imageA}
			in.Images[1].Locations = in.Images[0].Locations
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in, denies := pod()
			e := hotfix()
			c.change(&e, in)
			in.Exemptions = []gate.Exemption{e}
			v := gate.NewChain(denies).Decide(context.Background(), in)
			if len(v.Exemptions) != c.covered || len(v.Violations) != 2-c.covered {
				t.Errorf("%d exempted, %d violations: %s", len(v.Exemptions), len(v.Violations), v.Canonical())
			}
			want := gate.OutcomeDeny
			if c.covered == 2 {
				want = gate.OutcomeAllow
			}
			if v.Outcome != want {
				t.Errorf("the verdict is %s", v.Outcome)
			}
			for _, i := range v.Images {
				if i.Outcome != gate.ImageUnsigned {
					t.Errorf("%s is %s: an exemption signs nothing", i.Image, i.Outcome)
				}
			}
		})
	}
}

func TestExemption_IsToldWithTheFindingThatItCovers(t *testing.T) {
	in, denies := pod()
	e := hotfix()
	e.Images = []string{imageA}
	in.Exemptions = []gate.Exemption{e}
	got := gate.NewChain(denies).Decide(context.Background(), in).Exemptions
	want := gate.Exempted{
		Name: "hotfix", Reason: "incident 4711", Expires: e.Expires, Policy: "signature", Severity: "critical",
		Object: "Deployment/shop/web", Path: "spec.template.spec.containers[0].image", Image: imageA + ":1", Message: "no signature",
	}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v", got)
	}
}

func TestExemption_SaysNothingOfWhatWasNotJudged(t *testing.T) {
	in, _ := pod()
	e := hotfix()
	e.Policies = []string{"signature", "render", "drift", "gate", "schema"}
	in.Exemptions = []gate.Exemption{e}
	named := func(policy string) []gate.Finding {
		return []gate.Finding{{Policy: policy, Object: "Workload/shop/web"}}
	}
	if v := gate.NewChain(found{Undecided: named("signature")}).Decide(context.Background(), in); v.Outcome != gate.OutcomeError || len(v.Exemptions) > 0 {
		t.Errorf("an outage was exempted: %s", v.Canonical())
	}
	for _, policy := range []string{"render", "drift", "gate", "schema"} {
		refused := *in
		refused.Refused = named(policy)
		for _, v := range []gate.Verdict{
			gate.NewChain().Decide(context.Background(), &refused),
			gate.NewChain(found{Deny: named(policy)}).Decide(context.Background(), in),
		} {
			if v.Outcome != gate.OutcomeDeny || len(v.Exemptions) > 0 {
				t.Errorf("%s was exempted: %s", policy, v.Canonical())
			}
		}
		if gate.ValidateExemptedPolicy(policy) == nil {
			t.Errorf("an exemption may name %s", policy)
		}
	}
	refused := *in
	refused.Refused = named("signature")
	if v := gate.NewChain().Decide(context.Background(), &refused); v.Outcome != gate.OutcomeDeny {
		t.Error("what was refused before any check ran was exempted")
	}
	if err := gate.ValidateExemptedPolicy("signature"); err != nil {
		t.Error(err)
	}
}

func TestExemption_TheOneThatEndsLastIsNamed(t *testing.T) {
	in, denies := pod()
	for i := range 5 {
		e := hotfix()
		e.Name, e.Until, e.Expires = fmt.Sprint("e", i), instant+int64(i%3)+1, fmt.Sprint(i%3)
		in.Exemptions = append(in.Exemptions, e)
	}
	want := gate.NewChain(denies).Decide(context.Background(), in)
	if len(want.Exemptions) != 2 || want.Exemptions[0].Name != "e2" {
		t.Fatalf("%s", want.Canonical())
	}
	for range 20 {
		rand.Shuffle(len(in.Exemptions), func(i, j int) { in.Exemptions[i], in.Exemptions[j] = in.Exemptions[j], in.Exemptions[i] })
		rand.Shuffle(len(denies.Deny), func(i, j int) { denies.Deny[i], denies.Deny[j] = denies.Deny[j], denies.Deny[i] })
		if got := gate.NewChain(denies).Decide(context.Background(), in); !bytes.Equal(got.Canonical(), want.Canonical()) {
			t.Fatalf("another order gives other bytes:\n%s\n%s", want.Canonical(), got.Canonical())
		}
	}
	// Those that ended before change nothing.
	in.Now += 2
	if got := gate.NewChain(denies).Decide(context.Background(), in); !bytes.Equal(got.Canonical(), want.Canonical()) {
		t.Errorf("%s", got.Canonical())
	}
}

func TestExemption_IsNoPartOfThePolicy(t *testing.T) {
	in, denies := pod()
	in.PolicyDigest = in.Gate.Digest()
	denied := gate.NewChain(denies).Decide(context.Background(), in)
	in.Exemptions = []gate.Exemption{hotfix()}
	allowed := gate.NewChain(denies).Decide(context.Background(), in)
	if denied.PolicyDigest != allowed.PolicyDigest || denied.Digest() == allowed.Digest() {
		t.Errorf("policy %s and %s, verdict %s and %s", denied.PolicyDigest, allowed.PolicyDigest, denied.Digest(), allowed.Digest())
	}
}

func TestExemption_IsBounded(t *testing.T) {
	in, denies := pod()
	for i := range limits.Exemptions + 1 {
		e := hotfix()
		e.Name, e.Policies = fmt.Sprintf("e%03d", i), []string{"other"}
		in.Exemptions = append(in.Exemptions, e)
	}
	in.Exemptions[limits.Exemptions].Policies = []string{"signature"}
	v := gate.NewChain(denies).Decide(context.Background(), in)
	if v.Outcome != gate.OutcomeDeny || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0].Message, "limits.Exemptions") {
		t.Errorf("%s", v.Canonical())
	}

	in, denies = pod()
	in.Exemptions = []gate.Exemption{hotfix()}
	for i := range limits.Findings + 10 {
		f := denies.Deny[0]
		f.Message = fmt.Sprintf("%03d\x1b[2J", i)
		denies.Deny = append(denies.Deny, f)
	}
	v = gate.NewChain(denies).Decide(context.Background(), in)
	last := v.Exemptions[len(v.Exemptions)-1]
	if len(v.Exemptions) != limits.Findings || !strings.HasPrefix(last.Message, "and 13 more") || v.Outcome != gate.OutcomeAllow {
		t.Errorf("%d exempted, the last is %+v", len(v.Exemptions), last)
	}
	if slices.ContainsFunc(v.Exemptions, func(e gate.Exempted) bool { return strings.Contains(e.Message, "\x1b") }) {
		t.Error("a terminal would obey what is exempted")
	}
}

func TestValidateImagePattern_RefusesWhatIsTooBroad(t *testing.T) {
	for pattern, ok := range map[string]bool{
		imageA: true, imageA + "@" + digestA: true, imageA + "@sha256:*": true, "registry.example.com/shop/**": true, "docker.io/library/nginx": true,
		"**": false, "*": false, "**/**": false, "*/shop/a": false, "registry.example.com/**": false, "registry.example.com/*": false, "registry.example.com/*/**": false,
		"": false, "registry.example.com": false, imageA + ":1": false, imageA + "@": false, imageA + "@sha256:": false, imageA + "@sha256:ab*": false,
		imageA + "@sha512:*": false, imageA + "@*": false, "registry.example.com/**@sha256:*": false,
	} {
		if err := gate.ValidateImagePattern(pattern); (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	for name, ok := range map[string]bool{"web": true, "web-*": true, "*": false, "**": false, "": false} {
		if err := gate.ValidateObjectPattern(gate.ObjectPattern{Kind: "Workload", Namespace: "shop", Name: name}); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
