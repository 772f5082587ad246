package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// found is a check that finds what it is told.
type found gate.Findings

func (f found) Evaluate(context.Context, *gate.Input) gate.Findings { return gate.Findings(f) }

func finding(message string) gate.Finding {
	return gate.Finding{Policy: "p", Severity: gate.SeverityHigh, Object: "Deployment/shop/web", Path: "spec", Message: message}
}

func decide(mode gate.Mode, checks ...gate.Check) gate.Verdict {
	in := &gate.Input{
		Gate: gate.Config{Name: "prod", Mode: mode}, PolicyDigest: "sha256:00",
		Object: gate.ObjectRef{APIVersion: "sluice.dev/v1beta1", Kind: "Workload", Name: "web", Namespace: "shop"},
	}
	return gate.NewChain(checks...).Decide(context.Background(), in)
}

func TestChain_ComposesTheWorstOfWhatWasFound(t *testing.T) {
	nothing := found{}
	warn := found{Warn: []gate.Finding{finding("warn")}}
	open := found{Undecided: []gate.Finding{finding("open")}}
	deny := found{Deny: []gate.Finding{finding("deny")}}
	for name, c := range map[string]struct {
		checks               []gate.Check
		enforce, warn, audit gate.Outcome
		violations, warnings int
	}{
		"no check at all":                {nil, gate.OutcomeAllow, gate.OutcomeAllow, gate.OutcomeAllow, 0, 0},
		"nothing found":                  {[]gate.Check{nothing}, gate.OutcomeAllow, gate.OutcomeAllow, gate.OutcomeAllow, 0, 0},
		"a warning":                      {[]gate.Check{nothing, warn}, gate.OutcomeWarn, gate.OutcomeWarn, gate.OutcomeAllow, 0, 1},
		"an open question":               {[]gate.Check{open}, gate.OutcomeError, gate.OutcomeWarn, gate.OutcomeAllow, 1, 0},
		"an open question and a warning": {[]gate.Check{open, warn}, gate.OutcomeError, gate.OutcomeWarn, gate.OutcomeAllow, 1, 1},
		"a denial":                       {[]gate.Check{deny}, gate.OutcomeDeny, gate.OutcomeWarn, gate.OutcomeAllow, 1, 0},
		"a denial after an open question, which both are told": {[]gate.Check{open, deny, warn}, gate.OutcomeDeny, gate.OutcomeWarn, gate.OutcomeAllow, 2, 1},
	} {
		for mode, want := range map[gate.Mode]gate.Outcome{
			gate.Enforce: c.enforce, gate.Warn: c.warn, gate.Audit: c.audit,
			"": c.enforce, "enforce": c.enforce,
		} {
			t.Run(fmt.Sprintf("%s in mode %q", name, mode), func(t *testing.T) {
				v := decide(mode, c.checks...)
				if v.Outcome != want || len(v.Violations) != c.violations || len(v.Warnings) != c.warnings {
					t.Errorf("%s with %d violations and %d warnings", v.Outcome, len(v.Violations), len(v.Warnings))
				}
				if v.Gate != "prod" || v.Object.Name != "web" || v.PolicyDigest != "sha256:00" {
					t.Errorf("the verdict does not say who judged what: %+v", v)
				}
			})
		}
	}
}

func TestChain_SaysThatAnOpenQuestionIsOne(t *testing.T) {
	undecided := []gate.Finding{finding("open")}
	v := decide(gate.Enforce, found{Undecided: undecided})
	if v.Violations[0].Severity != gate.SeverityError {
		t.Errorf("severity %q", v.Violations[0].Severity)
	}
	if undecided[0].Severity != gate.SeverityHigh {
		t.Error("the check's own finding was changed")
	}
}

func TestChain_CountsWhatWasGatheredAsFound(t *testing.T) {
	in := &gate.Input{Gate: gate.Config{Mode: gate.Enforce}, Failures: []gate.Finding{finding("not gathered")}}
	if v := gate.NewChain().Decide(context.Background(), in); v.Outcome != gate.OutcomeError {
		t.Errorf("failures: %s", v.Outcome)
	}
	in.Refused = []gate.Finding{finding("refused")}
	if v := gate.NewChain(found{}).Decide(context.Background(), in); v.Outcome != gate.OutcomeDeny || len(v.Violations) != 2 {
		t.Errorf("refusals: %s", v.Outcome)
	}
	if len(in.Refused) != 1 || len(in.Failures) != 1 {
		t.Error("the input was changed")
	}
}

func TestOutcome_WhatIsNotKnownBlocksAndIsWorst(t *testing.T) {
	order := []gate.Outcome{gate.OutcomeAllow, gate.OutcomeWarn, gate.OutcomeError, gate.OutcomeDeny, "allow"}
	for i, o := range order {
		if o.Blocks() != (i >= 2) {
			t.Errorf("%q blocks: %v", o, o.Blocks())
		}
		for j, other := range order {
			if o.WorseThan(other) != (i > j) {
				t.Errorf("%q worse than %q: %v", o, other, o.WorseThan(other))
			}
		}
	}
	if !gate.Worst(nil).Outcome.Blocks() {
		t.Error("no verdict at all lets through")
	}
	first := gate.Verdict{Gate: "a", Outcome: gate.OutcomeDeny}
	if got := gate.Worst([]gate.Verdict{{Outcome: gate.OutcomeAllow}, first, {Gate: "b", Outcome: gate.OutcomeDeny}, {Outcome: gate.OutcomeError}}); got.Gate != "a" {
		t.Errorf("worst is that of gate %q", got.Gate)
	}
}

func TestNoGate_Denies(t *testing.T) {
	v := gate.NoGate(gate.ObjectRef{Kind: "Workload", Name: "web", Namespace: "shop"})
	if v.Outcome != gate.OutcomeDeny || len(v.Violations) != 1 || v.Violations[0].Remedy == "" || !strings.Contains(v.Violations[0].Message, "shop") {
		t.Errorf("%+v", v)
	}
	v = gate.CouldNotDecide(gate.ObjectRef{Kind: "Workload", Name: "web"}, "no answer", "wait")
	if v.Outcome != gate.OutcomeError || v.Violations[0].Severity != gate.SeverityError || v.Violations[0].Object != "Workload/web" {
		t.Errorf("%+v", v)
	}
}

func TestVerdict_IsTheDocumentedContract(t *testing.T) {
	raw, err := os.ReadFile("testdata/verdict.json")
	if err != nil {
		t.Fatal(err)
	}
	var v gate.Verdict
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(v.Canonical(), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("encoded again it is\n%s", v.Canonical())
	}
}

func TestVerdict_CanonicalIsTheSameWhateverTheOrder(t *testing.T) {
	var deny, warn []gate.Finding
	var images []gate.ImageResult
	for i := range 20 {
		f := finding(fmt.Sprint("message ", i%7))
		f.Path, f.Policy = fmt.Sprint("path", i%3), fmt.Sprint("policy", i%2)
		deny, warn = append(deny, f), append(warn, f)
		images = append(images, gate.ImageResult{
			Image: fmt.Sprint("image", i%4), Outcome: gate.ImageVerified, Authority: fmt.Sprint(i % 5), Attestations: []string{"b", fmt.Sprint(i % 3), "a"},
		})
	}
	want := decide(gate.Enforce, found{Deny: deny, Warn: warn, Images: images}).Canonical()
	for range 100 {
		rand.Shuffle(len(deny), func(i, j int) { deny[i], deny[j] = deny[j], deny[i] })
		rand.Shuffle(len(warn), func(i, j int) { warn[i], warn[j] = warn[j], warn[i] })
		rand.Shuffle(len(images), func(i, j int) { images[i], images[j] = images[j], images[i] })
		half := len(deny) / 2
		got := decide(gate.Enforce, found{Deny: deny[:half], Images: images}, found{Deny: deny[half:], Warn: warn}).Canonical()
		if !bytes.Equal(got, want) {
			t.Fatalf("another order gives other bytes:\n%s\n%s", want, got)
		}
	}
}

func TestVerdict_CanonicalHasSortedKeysAndListsThatAreNeverNull(t *testing.T) {
	v := gate.NewChain(found{Images: []gate.ImageResult{{Image: "<a>&b"}}}).Decide(context.Background(), &gate.Input{})
	want := `{"exemptions":[],"gate":"","images":[{"attestations":[],"authority":"","digest":"","identity":"","image":"<a>&b","outcome":""}],` +
		`"object":{"apiVersion":"","kind":"","name":"","namespace":""},"policyDigest":"","verdict":"Allow","violations":[],"warnings":[]}`
	if got := string(v.Canonical()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVerdict_SaysTheSameThingOnce(t *testing.T) {
	v := decide(gate.Enforce, found{Deny: []gate.Finding{finding("a"), finding("a")}}, found{Deny: []gate.Finding{finding("a")}})
	if len(v.Violations) != 1 {
		t.Errorf("%d violations", len(v.Violations))
	}
}

func TestVerdict_CountsFindingsBeyondTheLimit(t *testing.T) {
	for _, over := range []int{0, 1, 1000} {
		var all []gate.Finding
		for i := range limits.Findings + over {
			all = append(all, finding(fmt.Sprintf("%05d", i)))
		}
		v := decide(gate.Enforce, found{Deny: all, Warn: all})
		if len(v.Violations) != limits.Findings || len(v.Warnings) != limits.Findings {
			t.Fatalf("%d violations and %d warnings of %d", len(v.Violations), len(v.Warnings), len(all))
		}
		last := v.Violations[limits.Findings-1]
		if over == 0 && last.Message != fmt.Sprintf("%05d", limits.Findings-1) {
			t.Errorf("at the limit the last is %q", last.Message)
		}
		if over > 0 && (!strings.HasPrefix(last.Message, fmt.Sprintf("and %d more", over+1)) || last.Object != "Workload/shop/web" || last.Severity != gate.SeverityHigh) {
			t.Errorf("beyond it the last is %+v", last)
		}
	}
}

func TestVerdict_HoldsNothingThatATerminalObeys(t *testing.T) {
	const evil = "a\r\n::error::b\x1b[2J\u202e"
	f := gate.Finding{Policy: evil, Severity: evil, Object: evil, Path: evil, Message: evil + strings.Repeat("x", 2*limits.MessageBytes), Remedy: evil}
	in := &gate.Input{Gate: gate.Config{Name: evil}, Object: gate.ObjectRef{APIVersion: evil, Kind: evil, Name: evil, Namespace: evil}}
	for name, v := range map[string]gate.Verdict{
		"chain": gate.NewChain(found{Deny: []gate.Finding{f}, Warn: []gate.Finding{f}, Undecided: []gate.Finding{f}, Images: []gate.ImageResult{
			{Image: evil, Authority: evil, Identity: evil, Attestations: []string{evil}}}}).Decide(context.Background(), in),
		"no gate":          gate.NoGate(in.Object),
		"could not decide": gate.CouldNotDecide(in.Object, evil, evil),
	} {
		text := fmt.Sprintf("%+v", v)
		if strings.ContainsAny(text, "\r\n\x1b\u202e") {
			t.Errorf("%s: %q", name, text)
		}
		for _, v := range append(v.Violations, v.Warnings...) {
			if len(v.Message) > limits.MessageBytes {
				t.Errorf("%s: a message of %d bytes", name, len(v.Message))
			}
		}
	}
}

// baseConfig is a Gate with something of everything that decides.
func baseConfig() gate.Config {
	return gate.Config{
		Name: "prod", Environment: "prod", Mode: gate.Enforce, DenyUnmatched: true,
		Policies:   []gate.PolicySet{{Name: "a", Modules: map[string]string{"a.rego": "package a", "b.rego": "package b"}}},
		Parameters: map[string]any{"a": map[string]any{"x": 1.0, "y": "z"}},
		Images:     []gate.ImageRule{{Match: "r.io/**", Authorities: []gate.Authority{{Name: "k", PublicKeyPEM: "pem"}}, Require: gate.Requirement{Count: 1}}},
	}
}

// configChanges to baseConfig, by what each is of.
var configChanges = map[string]func(*gate.Config){
	"name": func(c *gate.Config) { c.Name = "dev" }, "environment": func(c *gate.Config) { c.Environment = "dev" },
	"mode": func(c *gate.Config) { c.Mode = gate.Audit }, "unmatched": func(c *gate.Config) { c.DenyUnmatched = false },
	"module": func(c *gate.Config) { c.Policies[0].Modules["a.rego"] = "package c" }, "parameter": func(c *gate.Config) { c.Parameters["b"] = true },
	"key": func(c *gate.Config) { c.Images[0].Authorities[0].PublicKeyPEM = "other" }, "require": func(c *gate.Config) { c.Images[0].Require = gate.Requirement{All: true} },
	"digest rule": func(c *gate.Config) { c.Images[0].RequireDigest = true }, "match": func(c *gate.Config) { c.Images[0].Match = "r.io/*" },
}

func TestConfig_DigestChangesWithEverythingThatDecides(t *testing.T) {
	want := baseConfig().Digest()
	for range 50 {
		if got := baseConfig().Digest(); got != want {
			t.Fatalf("the digest of one config is %s and %s", want, got)
		}
	}
	seen := map[string]string{want: "unchanged"}
	for name, change := range configChanges {
		c := baseConfig()
		change(&c)
		if other, ok := seen[c.Digest()]; ok {
			t.Errorf("%s gives the digest of %s", name, other)
		}
		seen[c.Digest()] = name
	}
	set := baseConfig().Policies[0]
	if set.Summed().Digest() != set.Digest() || set.Digest() == (gate.PolicySet{}).Digest() {
		t.Error("a set's digest worked out before is another")
	}
	if a, b := baseConfig(), baseConfig(); true {
		b.Policies[0] = b.Policies[0].Summed()
		if a.Digest() != b.Digest() {
			t.Error("a Config's digest depends on whether its sets are summed")
		}
	}
}

func TestDigestMemo_SumsAreThoseOfConfigsAsTheyAreNow(t *testing.T) {
	var digests gate.DigestMemo
	one := baseConfig()
	for range 2 {
		if got, want := digests.Sum(&one), baseConfig().Digest(); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if one.Policies[0].Sum != baseConfig().Policies[0].Digest() {
		t.Errorf("the sets are not summed: %q", one.Policies[0].Sum)
	}
	for name, change := range configChanges {
		c := baseConfig()
		change(&c)
		want := c.Digest()
		for range 2 {
			if got := digests.Sum(&c); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	}
	for i := range limits.Digests + 10 {
		c := gate.Config{Name: strconv.Itoa(i)}
		if got, want := digests.Sum(&c), c.Digest(); got != want {
			t.Fatalf("%d: got %s, want %s", i, got, want)
		}
	}
}
