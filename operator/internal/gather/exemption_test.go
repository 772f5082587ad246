package gather_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func (s *stand) exemption(name string, expires time.Time, images ...string) v1beta1.Exemption {
	return v1beta1.Exemption{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.ExemptionSpec{
			Reason: "incident 4711", Expires: metav1.NewTime(expires), Gates: []string{"prod"}, Policies: []string{"signature"},
			Objects: []v1beta1.ExemptedObject{{Kind: "Workload", Namespace: "shop", Name: "web"}}, Images: images,
		},
	}
}

func TestJudge_ExemptsUntilTheEnd(t *testing.T) {
	s := newStand(t)
	end := noon.Add(time.Hour)
	now := noon
	s.files.Clock = func() time.Time { return now }
	s.files.OperatorNamespace = "sluice-system"
	s.files.ExemptionList = []v1beta1.Exemption{s.exemption("hotfix", end.In(time.FixedZone("elsewhere", 3600)), s.registry.Host()+"/shop/unsigned")}
	judged := func(image string) gather.Judgement { return s.judge(workload(image), nil) }

	j := judged(s.image("unsigned"))
	if v := j.Verdicts[0]; v.Outcome != gate.OutcomeAllow || len(v.Exemptions) != 1 || v.Exemptions[0].Expires != "2026-12-01T13:00:00Z" || v.Images[0].Outcome != gate.ImageUnsigned {
		t.Errorf("%s", v.Canonical())
	}
	if !j.Until.Equal(end) {
		t.Errorf("judged again at %s", j.Until)
	}
	before := j.Verdicts[0].Digest()
	now = end.Add(-time.Second)
	if got := judged(s.image("unsigned")).Verdicts[0].Digest(); got != before {
		t.Error("the verdict depends on the time before the end")
	}
	now = end
	if j = judged(s.image("unsigned")); j.Verdicts[0].Outcome != gate.OutcomeDeny || !j.Until.IsZero() {
		t.Errorf("after the end: %s, until %s", j.Verdicts[0].Canonical(), j.Until)
	}
	now = noon
	if j = judged(s.image("signed")); len(j.Verdicts[0].Exemptions) > 0 || !j.Until.IsZero() {
		t.Error("an exemption that nothing needs is told")
	}
}

func TestJudge_ExemptsNothingInTheOperatorsNamespace(t *testing.T) {
	s := newStand(t)
	s.files.OperatorNamespace = "shop"
	e := s.exemption("all", time.Now().Add(time.Hour), s.registry.Host()+"/shop/*")
	e.Spec.Objects = nil
	s.files.ExemptionList = []v1beta1.Exemption{e}
	if v := s.judge(workload(s.image("unsigned")), nil).Verdicts[0]; v.Outcome != gate.OutcomeDeny {
		t.Errorf("%s", v.Canonical())
	}
	s.files.OperatorNamespace = "sluice-system"
	if v := s.judge(workload(s.image("unsigned")), nil).Verdicts[0]; v.Outcome != gate.OutcomeAllow {
		t.Errorf("%s", v.Canonical())
	}
}

func TestJudge_UntilIsTheFirstEnd(t *testing.T) {
	s := newStand(t)
	s.files.Clock = func() time.Time { return noon }
	other := s.gate("other")
	s.files.GateList = append(s.files.GateList, other)
	late, soon := s.exemption("late", noon.Add(2*time.Hour)), s.exemption("soon", noon.Add(time.Hour))
	soon.Spec.Gates = []string{"other"}
	s.files.ExemptionList = []v1beta1.Exemption{late, soon}
	if j := s.judge(workload(s.image("unsigned")), nil); !j.Until.Equal(noon.Add(time.Hour)) || j.Blocked() {
		t.Errorf("until %s, %v", j.Until, j.Verdicts)
	}
}

func TestJudge_CountsExemptionsThatHaveNotExpired(t *testing.T) {
	s := newStand(t)
	s.files.Clock = func() time.Time { return noon }
	s.files.ExemptionList = []v1beta1.Exemption{s.exemption("a", noon), s.exemption("b", noon.Add(time.Hour)), s.exemption("c", noon.Add(-time.Hour)), s.exemption("d", noon.Add(time.Second))}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{})).Collectors()...)
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "sluice_exemptions_active" {
			if n := f.GetMetric()[0].GetGauge().GetValue(); n != 2 {
				t.Errorf("%v are active", n)
			}
			return
		}
	}
	t.Error("they are not counted")
}

func TestValidateExemption_NamesTheField(t *testing.T) {
	s := newStand(t)
	for name, c := range map[string]struct {
		change func(*v1beta1.ExemptionSpec)
		path   string
	}{
		"nothing wrong":             {func(*v1beta1.ExemptionSpec) {}, ""},
		"every image":               {func(e *v1beta1.ExemptionSpec) { e.Images = []string{"r.io/a/b", "**"} }, "spec.images[1]"},
		"every image of a registry": {func(e *v1beta1.ExemptionSpec) { e.Images = []string{"r.io/**"} }, "spec.images[0]"},
		"a tag":                     {func(e *v1beta1.ExemptionSpec) { e.Images = []string{"r.io/a:1"} }, "spec.images[0]"},
		"every object":              {func(e *v1beta1.ExemptionSpec) { e.Objects[0].Name = "*" }, "spec.objects[0].name"},
		"the operator itself":       {func(e *v1beta1.ExemptionSpec) { e.Objects[0].Namespace = "sluice-system" }, "spec.objects[0].namespace"},
		"that no Gate matches":      {func(e *v1beta1.ExemptionSpec) { e.Policies = []string{"signature", "gate"} }, "spec.policies[1]"},
		"what does not render":      {func(e *v1beta1.ExemptionSpec) { e.Policies = []string{"render"} }, "spec.policies[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			e := s.exemption("e", noon)
			c.change(&e.Spec)
			errs := gather.ValidateExemption(&e, "sluice-system")
			if (len(errs) == 0) != (c.path == "") || len(errs) > 0 && !strings.HasPrefix(errs[0].Error(), c.path+":") {
				t.Errorf("%v", errs)
			}
		})
	}
}
