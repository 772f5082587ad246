package signature

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// Cases that some tool in the field got wrong, under the numbers they have in
// docs/image-trust.md.

func TestCase1_AnAttestationAloneIsEnoughWhereOnlyThatIsAskedFor(t *testing.T) {
	in := input(demanding([]gate.Authority{keylessCI(t, nil)}, demand(provenance, "")), statementBy(t, ci(), false, webDigest, provenance, nil))
	want := judged{Outcome: gate.ImageVerified, Authority: "ci", Identity: ciName, Attestations: []string{provenance}}
	if diff := judge(t, in).diff(want); diff != "" {
		t.Error(diff)
	}
	if v := gate.NewChain(New()).Decide(t.Context(), in); v.Outcome != gate.OutcomeAllow {
		t.Errorf("%s", v.Canonical())
	}
}

func TestCase3_AKeySignedBundleIsASignature(t *testing.T) {
	if diff := judge(t, input(anyOf(0), signatureBundle(t, keys()[0], webDigest))).diff(judged{Outcome: gate.ImageVerified, Authority: "key-0"}); diff != "" {
		t.Error(diff)
	}
}

func TestCase5_ASignedImageNamedByTagIsDeniedWhereADigestIsDemanded(t *testing.T) {
	rule := ruleFor(keylessCI(t, nil))
	rule.RequireDigest = true
	in := input(rule, keylessBundle(t, sigstores()[0], ci(), webDigest))
	if got := judge(t, in); got.Outcome != gate.ImageUntrusted || len(got.Deny) != 1 {
		t.Errorf("%+v", got)
	}
	in.Images[0].Pinned = true
	if diff := judge(t, in).diff(acceptedCI); diff != "" {
		t.Error(diff)
	}
}

func TestCase6_PatternsThatMatchNothingInTheCertificateDeny(t *testing.T) {
	a := keylessCI(t, patterns(`^https://gitlab\.com$`, `^https://gitlab\.com/shop/.*$`))
	for format, make := range makers {
		if diff := judge(t, input(ruleFor(a), make(t, sigstores()[0], ci(), webDigest))).diff(refusedCI); diff != "" {
			t.Errorf("%s: %s", format, diff)
		}
	}
}

func TestCase8_ASignedIndexStandsForChildrenOfAnyPlatform(t *testing.T) {
	in := input(ruleFor(keylessCI(t, nil)), keylessBundle(t, sigstores()[0], ci(), webDigest))
	in.Images[0].Children = []gate.ChildImage{
		{Digest: testkit.DigestOf("arm"), Platform: "linux/arm64"}, {Digest: testkit.DigestOf("z"), Platform: "linux/s390x"},
		{Digest: testkit.DigestOf("win"), Platform: "windows/amd64"},
	}
	if diff := judge(t, in).diff(acceptedCI); diff != "" {
		t.Error(diff)
	}
}

// byChildren has an index with two children under a rule that counts them.
func byChildren(rule gate.ImageRule, amd, arm []gate.Signature, index ...gate.Signature) *gate.Input {
	rule.ByChildren = true
	in := input(rule, index...)
	in.Images[0].Children = []gate.ChildImage{
		{Digest: testkit.DigestOf("amd"), Platform: "linux/amd64", Signatures: amd},
		{Digest: testkit.DigestOf("arm"), Platform: "linux/arm64/v8", Signatures: arm},
	}
	return in
}

func TestCase9_AnUnsignedIndexOfSignedChildrenPasses(t *testing.T) {
	s := sigstores()[0]
	amd, arm := keylessBundle(t, s, ci(), testkit.DigestOf("amd")), keylessTag(t, s, ci(), testkit.DigestOf("arm"))
	got := New().Evaluate(t.Context(), byChildren(ruleFor(keylessCI(t, nil)), []gate.Signature{amd}, []gate.Signature{arm}))
	want := []gate.ImageResult{{Image: repository + ":1", Digest: webDigest, Outcome: gate.ImageVerified, Authority: "ci", Identity: ciName}}
	if diff := cmp.Diff(want, got.Images); diff != "" || len(got.Deny)+len(got.Undecided) > 0 {
		t.Errorf("%s %+v", diff, got)
	}
}

func TestCheck_ByChildrenHoldsEveryChildToTheRule(t *testing.T) {
	k := keys()[0]
	amd, arm, index := claim(t, k, testkit.DigestOf("amd")), claim(t, k, testkit.DigestOf("arm")), claim(t, k, webDigest)
	missing := "linux/arm64/v8 of the index, " + testkit.DigestOf("arm") + ", has no signature that authority key-0 accepts"
	verified := judged{Outcome: gate.ImageVerified, Authority: "key-0"}
	gone := gate.Authority{Name: "gone", Unavailable: "not there"}
	one := func(s ...gate.Signature) []gate.Signature { return s }
	for title, tc := range map[string]struct {
		in   *gate.Input
		want judged
	}{
		"both are signed":                          {byChildren(anyOf(0), one(amd), one(arm)), verified},
		"one is not":                               {byChildren(anyOf(0), one(amd), nil), judged{Outcome: gate.ImageUnsigned, Deny: []string{missing}}},
		"one is not, but the index is":             {byChildren(anyOf(0), one(amd), nil, index), judged{Outcome: gate.ImageUnsigned, Deny: []string{missing}}},
		"one has the signature of the other":       {byChildren(anyOf(0), one(amd), one(amd)), judged{Outcome: gate.ImageUntrusted, Deny: []string{missing}}},
		"one has the signature of the index":       {byChildren(anyOf(0), one(amd), one(index)), judged{Outcome: gate.ImageUntrusted, Deny: []string{missing}}},
		"one is signed by another":                 {byChildren(anyOf(0), one(amd), one(claim(t, keys()[1], testkit.DigestOf("arm")))), judged{Outcome: gate.ImageUntrusted, Deny: []string{missing}}},
		"each by another authority":                {byChildren(anyOf(0, 1), one(amd), one(claim(t, keys()[1], testkit.DigestOf("arm")))), judged{Outcome: gate.ImageVerified, Authority: "key-0,key-1"}},
		"a key is gone, and the other may do":      {byChildren(ruleFor(gone, authority(0)), one(amd), one(arm)), verified},
		"a key is gone, and it may be what counts": {byChildren(ruleFor(gone, authority(0)), one(amd), nil), judged{Outcome: gate.ImageError, Undecided: []string{"the key of authority gone: not there"}}},
		"none is signed": {byChildren(anyOf(0), nil, nil), judged{Outcome: gate.ImageUnsigned, Deny: []string{
			"linux/amd64 of the index, " + testkit.DigestOf("amd") + ", has no signature that authority key-0 accepts", missing}}},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := judge(t, tc.in).diff(tc.want); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("an image that is no index counts itself", func(t *testing.T) {
		rule := anyOf(0)
		rule.ByChildren = true
		if diff := judge(t, input(rule, index)).diff(verified); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("attestations are about the index", func(t *testing.T) {
		rule := anyOf(0)
		rule.Attestations = []gate.AttestationRule{demand(provenance, "")}
		in := withAttestations(byChildren(rule, one(amd), one(arm)), keyStatement(t, k, false, webDigest, provenance, nil))
		want := verified
		want.Attestations = []string{provenance}
		if diff := judge(t, in).diff(want); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a child without a digest", func(t *testing.T) {
		in := byChildren(anyOf(0), one(amd), one(arm))
		in.Images[0].Children[1].Digest = "sha256:x"
		if got := judge(t, in); got.Outcome != gate.ImageError || len(got.Undecided) != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestCase11_AFailedScanIsNoSignature(t *testing.T) {
	failed := map[string]any{"result": "FAILED"}
	a := keylessCI(t, nil)
	for title, in := range map[string]*gate.Input{
		"a bundle among signatures":                 input(ruleFor(a), statementBy(t, ci(), false, webDigest, vuln, failed)),
		"a bundle among attestations":               withAttestations(input(ruleFor(a)), statementBy(t, ci(), false, webDigest, vuln, failed)),
		"under the .att tag":                        withAttestations(input(ruleFor(a)), statementBy(t, ci(), true, webDigest, vuln, failed)),
		"under the .att tag, listed as a signature": input(ruleFor(a), statementBy(t, ci(), true, webDigest, vuln, failed)),
	} {
		if diff := judge(t, in).diff(judged{Outcome: gate.ImageUnsigned, Deny: []string{noCI}}); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
	}
	// Nor is it a build, nor a scan that passed.
	for _, tag := range []bool{false, true} {
		in := withAttestations(input(demanding([]gate.Authority{a}, demand(provenance, ""), demand(vuln, ""))), statementBy(t, ci(), tag, webDigest, vuln, failed))
		if got := judge(t, in); got.Outcome != gate.ImageUntrusted || len(got.Deny) != 2 || len(got.Attestations) > 0 {
			t.Errorf("%+v", got)
		}
	}
}

type refuse struct{ t *testing.T }

func (r refuse) RoundTrip(req *http.Request) (*http.Response, error) {
	r.t.Errorf("a call to %s", req.URL)
	return nil, errors.New("no network")
}

func TestCase13_NothingIsAskedOfANetwork(t *testing.T) {
	transport, resolver := http.DefaultTransport, net.DefaultResolver
	t.Cleanup(func() { http.DefaultTransport, net.DefaultResolver = transport, resolver })
	http.DefaultTransport = refuse{t}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		t.Errorf("a look-up at %s", address)
		return nil, errors.New("no network")
	}}
	for format, make := range makers {
		// Neither for what is there, nor for what is missing and could be asked for.
		for _, by := range []testkit.Identity{ci(), ci(testkit.PartLog), ci(testkit.PartLog, testkit.PartTimestamp)} {
			got := judge(t, input(ruleFor(keylessCI(t, nil)), make(t, sigstores()[0], by, webDigest)))
			if want := len(by.Without) == 0; (got.Outcome == gate.ImageVerified) != want {
				t.Errorf("%s: %+v", format, got)
			}
		}
	}
}

func TestCase14_OfTwoAuthoritiesTheMissingOneIsNamed(t *testing.T) {
	qa := keylessCI(t, func(k *gate.Keyless) { k.Issuer, k.Subject = "https://accounts.example.com", "qa@example.com" })
	qa.Name = "qa"
	rule := gate.ImageRule{Require: gate.Requirement{All: true}, Authorities: []gate.Authority{keylessCI(t, nil), qa}}
	got := judge(t, input(rule, keylessBundle(t, sigstores()[0], ci(), webDigest)))
	if diff := got.diff(judged{Outcome: gate.ImageUntrusted, Deny: []string{"image needs a signature of every authority, and has none of qa"}}); diff != "" {
		t.Error(diff)
	}
}

func TestCase15_RequireNoneAsksNothingOfARegistry(t *testing.T) {
	in := input(gate.ImageRule{Require: gate.Requirement{None: true}})
	in.Images[0].Digest, in.Images[0].Unavailable = "", "timed out"
	if _, needed := Needs(in.Gate, in.Images[0]); needed {
		t.Error("something is needed")
	}
	if diff := judge(t, in).diff(judged{Outcome: gate.ImageAllowed}); diff != "" {
		t.Error(diff)
	}
}

func TestNeeds_SaysWhatTheDecisionTakes(t *testing.T) {
	none := gate.Requirement{None: true}
	demands := []gate.AttestationRule{demand(vuln, ""), demand(provenance, ""), demand(vuln, noCritical)}
	types := []string{vuln, provenance}
	for title, tc := range map[string]struct {
		rule   gate.ImageRule
		want   gate.Want
		needed bool
	}{
		"a signature":                    {anyOf(0), gate.Want{Signatures: true}, true},
		"nothing":                        {gate.ImageRule{Require: none}, gate.Want{}, false},
		"nothing, of an index":           {gate.ImageRule{Require: none, ByChildren: true}, gate.Want{}, false},
		"attestations only":              {gate.ImageRule{Require: none, Attestations: demands}, gate.Want{Predicates: types}, true},
		"attestations only, of an index": {gate.ImageRule{Require: none, Attestations: demands, ByChildren: true}, gate.Want{Predicates: types}, true},
		"both":                           {gate.ImageRule{Attestations: demands}, gate.Want{Signatures: true, Predicates: types}, true},
		"children":                       {gate.ImageRule{ByChildren: true}, gate.Want{Signatures: true, Children: true}, true},
		"a digest that is not there":     {gate.ImageRule{RequireDigest: true, Attestations: demands}, gate.Want{}, false},
	} {
		t.Run(title, func(t *testing.T) {
			in := input(tc.rule)
			got, needed := Needs(in.Gate, in.Images[0])
			if diff := cmp.Diff(tc.want, got); diff != "" || needed != tc.needed || Needed(in.Gate, in.Images[0]) != tc.needed {
				t.Errorf("needed %v, %s", needed, diff)
			}
		})
	}
}

func TestEnough_IsWhatSatisfiesEveryGate(t *testing.T) {
	s := sigstores()[0]
	bundle, byKey := keylessBundle(t, s, ci(), webDigest), claim(t, keys()[0], webDigest)
	built := statementBy(t, ci(), false, webDigest, provenance, nil)
	identity := ruleFor(keylessCI(t, nil))
	withBuild := identity
	withBuild.Attestations = []gate.AttestationRule{demand(provenance, "")}
	withScan := identity
	withScan.Attestations = []gate.AttestationRule{demand(vuln, "")}
	children := anyOf(0)
	children.ByChildren = true
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for title, tc := range map[string]struct {
		ctx   context.Context
		rules []gate.ImageRule
		held  []gate.Signature
		want  bool
	}{
		"no Gate":                               {t.Context(), nil, nil, true},
		"nothing is needed":                     {over, []gate.ImageRule{{Require: gate.Requirement{None: true}}}, nil, true},
		"nothing was fetched":                   {t.Context(), []gate.ImageRule{identity}, nil, false},
		"the signature was":                     {t.Context(), []gate.ImageRule{identity}, []gate.Signature{bundle}, true},
		"a signature by another was":            {t.Context(), []gate.ImageRule{identity}, []gate.Signature{byKey}, false},
		"one Gate is satisfied, another is not": {t.Context(), []gate.ImageRule{identity, anyOf(0)}, []gate.Signature{bundle}, false},
		"both Gates are":                        {t.Context(), []gate.ImageRule{identity, anyOf(0)}, []gate.Signature{bundle, byKey}, true},
		"the attestation was not":               {t.Context(), []gate.ImageRule{withBuild}, []gate.Signature{bundle}, false},
		"the attestation was":                   {t.Context(), []gate.ImageRule{withBuild}, []gate.Signature{bundle, built}, true},
		"a newer scan may be elsewhere":         {t.Context(), []gate.ImageRule{withScan}, []gate.Signature{bundle, statementBy(t, ci(), false, webDigest, vuln, scan(""))}, false},
		"children are not known":                {t.Context(), []gate.ImageRule{children}, []gate.Signature{byKey}, false},
		"the time is over":                      {over, []gate.ImageRule{identity}, []gate.Signature{bundle}, false},
	} {
		t.Run(title, func(t *testing.T) {
			var configs []gate.Config
			image := input(gate.ImageRule{}, tc.held...).Images[0]
			for _, rule := range tc.rules {
				configs = append(configs, input(rule).Gate)
			}
			if got := New().Enough(tc.ctx, configs, &image); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
	signed := byChildren(anyOf(0), []gate.Signature{claim(t, keys()[0], testkit.DigestOf("amd"))}, []gate.Signature{claim(t, keys()[0], testkit.DigestOf("arm"))})
	if !New().Enough(t.Context(), []gate.Config{signed.Gate}, &signed.Images[0]) {
		t.Error("signed children are not enough")
	}
}
