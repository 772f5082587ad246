package gather_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const summaryType = "https://slsa.dev/verification_summary/v1"

// summary says that an image passed e2e a minute ago.
func summary() map[string]any {
	return map[string]any{
		"verifier": map[string]any{"id": "https://sluice.dev/environments/e2e"}, "verificationResult": "PASSED",
		"timeVerified": time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), "resourceUri": "oci://registry.example.com/shop/signed",
		"policy": map[string]any{"uri": "https://sluice.dev/gates/e2e"}, "verifiedLevels": []any{},
	}
}

// demandPromotion makes the Gate ask for evidence by the other key, from a Secret.
func (s *stand) demandPromotion() {
	s.files.Secrets["sluice-system/e2e-attestor"] = map[string][]byte{"cosign.pub": []byte(s.other.PublicPEM)}
	s.files.GateList[0].Spec.RequirePromotionFrom = &v1beta1.RequirePromotionFrom{
		Environment: "e2e", Within: &metav1.Duration{Duration: time.Hour},
		Authorities: []v1beta1.Authority{{Key: &v1beta1.PublicKey{Secret: &v1beta1.SecretKeyRef{
			NamespacedName: v1beta1.NamespacedName{Name: "e2e-attestor", Namespace: "sluice-system"}, Key: "cosign.pub",
		}}}},
	}
}

func TestJudge_PromotionIsFetchedWithTheSignatures(t *testing.T) {
	s := newStand(t)
	s.demandPromotion()
	if j := s.judge(workload(s.image("signed")), nil); !j.Blocked() || !strings.Contains(findings(j), "image has no evidence that it passed environment e2e") {
		t.Errorf("without evidence: %s", findings(j))
	}
	if err := s.other.AttestBundle(s.registry.Host()+"/shop/signed", s.digest, summaryType, summary()); err != nil {
		t.Fatal(err)
	}
	s.files.GateList[0].Spec.RequirePromotionFrom = nil
	s.registry.ResetCounts()
	s.judge(workload(s.image("signed")), nil)
	alone := s.registry.Requests()
	s.demandPromotion()
	s.registry.ResetCounts()
	j := s.judge(workload(s.image("signed")), nil)
	if j.Blocked() || j.Verdicts[0].Images[0].PromotedFrom != "e2e" {
		t.Errorf("with evidence: %s", j.Verdicts[0].Canonical())
	}
	// The bundle itself, in its manifest: the list of referrers is the one that is read anyway.
	if got := s.registry.Requests(); got > alone+2 {
		t.Errorf("evidence takes %d requests, and signatures alone %d", got, alone)
	}
}

func TestJudge_PromotionFromTheAttestationTagIsFoundBesideASignatureInABundle(t *testing.T) {
	s := newStand(t)
	s.demandPromotion()
	if err := s.other.AttestTag(s.registry.Host()+"/shop/signed", s.digest, summaryType, summary()); err != nil {
		t.Fatal(err)
	}
	if j := s.judge(workload(s.image("signed")), nil); j.Blocked() {
		t.Errorf("%s", findings(j))
	}
}

func TestJudge_PromotionIsAnErrorWhileTheRegistryIsDown(t *testing.T) {
	s := newStand(t)
	s.demandPromotion()
	s.files.GateList[0].Spec.Images[0].Require = nil
	s.registry.Override(nil, testkit.Status(http.StatusInternalServerError))
	j := s.judge(workload(s.image("signed")), nil)
	if got := gate.Worst(j.Verdicts).Outcome; got != gate.OutcomeError || !strings.Contains(findings(j), "evidence of environment e2e could not be read") {
		t.Errorf("%s: %s", got, findings(j))
	}
}

func TestJudge_PromotionAsksOnlyOfImagesThatAreLookedAt(t *testing.T) {
	s := newStand(t)
	s.demandPromotion()
	s.files.GateList[0].Spec.Images = []v1beta1.ImageRule{{Match: s.registry.Host() + "/shop/**", Require: new(intstr.FromString("none"))}}
	s.registry.ResetCounts()
	if j := s.judge(workload(s.image("signed")), nil); j.Blocked() || s.registry.Requests() != 0 {
		t.Errorf("%d requests: %s", s.registry.Requests(), findings(j))
	}
}

func TestValidateGate_PromotionNeedsAnotherEnvironmentAndSomebodyWhoSigns(t *testing.T) {
	s := newStand(t)
	for name, c := range map[string]struct {
		change func(*v1beta1.RequirePromotionFrom)
		at     string
	}{
		"a Secret that comes later": {func(*v1beta1.RequirePromotionFrom) {}, ""},
		"its own environment":       {func(p *v1beta1.RequirePromotionFrom) { p.Environment = "prod" }, "spec.requirePromotionFrom.environment"},
		"nobody":                    {func(p *v1beta1.RequirePromotionFrom) { p.Authorities = nil }, "spec.requirePromotionFrom.authorities"},
		"a key that is none":        {func(p *v1beta1.RequirePromotionFrom) { p.Authorities[0].Key = &v1beta1.PublicKey{Inline: "x"} }, "spec.requirePromotionFrom.authorities[0].key.inline"},
		"anybody, by a loose pattern": {func(p *v1beta1.RequirePromotionFrom) {
			p.Authorities[0] = v1beta1.Authority{Keyless: &v1beta1.Keyless{Issuer: "https://i", SubjectRegExp: ".*"}}
		}, "spec.requirePromotionFrom.authorities[0].keyless"},
	} {
		s.demandPromotion()
		c.change(s.files.GateList[0].Spec.RequirePromotionFrom)
		errs := gather.ValidateGate(&s.files.GateList[0])
		if c.at == "" && len(errs) > 0 || c.at != "" && (len(errs) != 1 || errs[0].Field != c.at) {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// attestOwn has the Gate believe evidence of its own environment by a key, and ask for
// evidence of e2e that is not older than a minute.
func (s *stand) attestOwn(k *testkit.Key) {
	s.demandPromotion()
	s.files.GateList[0].Spec.RequirePromotionFrom.Within = &metav1.Duration{Duration: time.Minute}
	s.files.GateList[0].Spec.Attest = &v1beta1.Attest{
		Key:         v1beta1.PrivateKey{Secret: &v1beta1.SecretKeyRef{NamespacedName: v1beta1.NamespacedName{Name: "prod-attestor", Namespace: "sluice-system"}, Key: "cosign.key"}},
		Authorities: []v1beta1.Authority{{Name: "prod-attestor", Key: &v1beta1.PublicKey{Inline: k.PublicPEM}}},
	}
}

// Evidence of the environment itself lies in the list that is read anyway: while that of the
// environment before it is in time, nothing more is asked for.
func TestJudge_EvidenceOfItsOwnEnvironmentTakesNoFurtherRequest(t *testing.T) {
	s := newStand(t)
	own, err := testkit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	repository, e2e, prod := s.registry.Host()+"/shop/signed", summary(), summary()
	e2e["timeVerified"] = time.Now().Add(-30 * time.Second).UTC().Format(time.RFC3339)
	prod["verifier"] = map[string]any{"id": "https://sluice.dev/environments/prod"}
	if err := s.other.AttestBundle(repository, s.digest, summaryType, e2e); err != nil {
		t.Fatal(err)
	}
	ask := func() (gather.Judgement, int) {
		s.registry.ResetCounts()
		j := s.judge(workload(s.image("signed")), nil)
		return j, s.registry.Requests()
	}
	s.demandPromotion()
	_, without := ask()
	s.attestOwn(own)
	j, with := ask()
	if j.Blocked() || with != without {
		t.Errorf("%d requests, and %d where nobody attests: %s", with, without, findings(j))
	}
	s.files.Clock = func() time.Time { return time.Now().Add(time.Hour) }
	if j, _ := ask(); !j.Blocked() || !strings.Contains(findings(j), "is older than 1m0s; it has no evidence of environment prod itself") {
		t.Errorf("an hour later: %s", findings(j))
	}
	if err := own.AttestBundle(repository, s.digest, summaryType, prod); err != nil {
		t.Fatal(err)
	}
	j, returned := ask()
	if j.Blocked() || j.Verdicts[0].Images[0].PromotedFrom != "e2e" {
		t.Errorf("an hour later, and it ran in prod: %s", findings(j))
	}
	// The bundle, in its manifest.
	if returned > with+2 {
		t.Errorf("%d requests, and %d while the evidence of e2e is in time", returned, with)
	}
}

// Where a Gate cannot tell that two keys are one, whoever judges by it can: the key of e2e
// says nothing of prod, under whatever name.
func TestJudge_TheKeyOfTheEnvironmentBeforeSaysNothingOfThisOne(t *testing.T) {
	s := newStand(t)
	repository, e2e, prod := s.registry.Host()+"/shop/signed", summary(), summary()
	e2e["timeVerified"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	prod["verifier"] = map[string]any{"id": "https://sluice.dev/environments/prod"}
	for _, said := range []map[string]any{e2e, prod} {
		if err := s.other.AttestBundle(repository, s.digest, summaryType, said); err != nil {
			t.Fatal(err)
		}
	}
	s.files.Secrets["sluice-system/prod-attestor"] = map[string][]byte{"cosign.pub": []byte(s.other.PublicPEM)}
	for name, key := range map[string]v1beta1.PublicKey{
		"in the Gate":       {Inline: s.other.PublicPEM},
		"in another Secret": {Secret: &v1beta1.SecretKeyRef{NamespacedName: v1beta1.NamespacedName{Name: "prod-attestor", Namespace: "sluice-system"}, Key: "cosign.pub"}},
	} {
		s.attestOwn(s.other)
		s.files.GateList[0].Spec.Attest.Authorities[0].Key = &key
		if errs := gather.ValidateGate(&s.files.GateList[0]); len(errs) != 0 {
			t.Errorf("%s: admission sees it already: %v", name, errs)
		}
		if j := s.judge(workload(s.image("signed")), nil); !j.Blocked() || !strings.Contains(findings(j), "signs for environment e2e too") {
			t.Errorf("%s: %s", name, findings(j))
		}
	}
}

func TestValidateGate_AttestNeedsAKeyOfItsOwn(t *testing.T) {
	s := newStand(t)
	for name, c := range map[string]struct {
		change func(*v1beta1.Attest)
		at     string
	}{
		"a Secret that comes later":    {func(*v1beta1.Attest) {}, ""},
		"a key in Vault":               {func(a *v1beta1.Attest) { a.Key = v1beta1.PrivateKey{KMS: "hashivault://prod"} }, ""},
		"no key":                       {func(a *v1beta1.Attest) { a.Key = v1beta1.PrivateKey{} }, "spec.attest.key"},
		"two keys":                     {func(a *v1beta1.Attest) { a.Key.KMS = "hashivault://prod" }, "spec.attest.key"},
		"a service that nobody serves": {func(a *v1beta1.Attest) { a.Key = v1beta1.PrivateKey{KMS: "awskms://prod"} }, "spec.attest.key.kms"},
		"a key without a name":         {func(a *v1beta1.Attest) { a.Key = v1beta1.PrivateKey{KMS: "hashivault://"} }, "spec.attest.key.kms"},
		"anybody": {func(a *v1beta1.Attest) {
			a.Authorities = []v1beta1.Authority{{Keyless: &v1beta1.Keyless{Issuer: "https://i", SubjectRegExp: ".*"}}}
		}, "spec.attest.authorities[0].keyless"},
		"a key that is none": {func(a *v1beta1.Attest) { a.Authorities[0].Key.Inline = "x" }, "spec.attest.authorities[0].key.inline"},
		"the key of e2e": {func(a *v1beta1.Attest) {
			a.Authorities[0] = s.files.GateList[0].Spec.RequirePromotionFrom.Authorities[0]
		}, "spec.attest.authorities[0].key"},
		"whoever signs for e2e, by their identity": {func(a *v1beta1.Attest) {
			who := v1beta1.Authority{Name: "ci", Keyless: &v1beta1.Keyless{Issuer: "https://i", Subject: "ci"}}
			s.files.GateList[0].Spec.RequirePromotionFrom.Authorities[0] = who
			who.Name = "own"
			a.Authorities[0] = who
		}, "spec.attest.authorities[0].keyless"},
		"an identity of its own": {func(a *v1beta1.Attest) {
			s.files.GateList[0].Spec.RequirePromotionFrom.Authorities[0] = v1beta1.Authority{Keyless: &v1beta1.Keyless{Issuer: "https://i", Subject: "e2e"}}
			a.Authorities[0] = v1beta1.Authority{Keyless: &v1beta1.Keyless{Issuer: "https://i", Subject: "prod"}}
		}, ""},
	} {
		s.attestOwn(s.key)
		c.change(s.files.GateList[0].Spec.Attest)
		errs := gather.ValidateGate(&s.files.GateList[0])
		if c.at == "" && len(errs) > 0 || c.at != "" && (len(errs) != 1 || errs[0].Field != c.at) {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
