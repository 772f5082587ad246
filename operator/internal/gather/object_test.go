package gather_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

func (s *stand) object(kind string, spec map[string]any) gather.Judgement {
	apiVersion := map[string]string{"Runner": "runners.example.com/v1", "ClusterRole": "rbac.authorization.k8s.io/v1", "Pod": "v1"}[kind]
	namespace := "shop"
	if kind == "ClusterRole" {
		namespace = ""
	}
	return gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{})).Object(context.Background(), map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "x", "namespace": namespace}, "spec": spec,
	}, namespace)
}

func TestJudge_ObjectOfAKindThatTheGateNames(t *testing.T) {
	s := newStand(t)
	s.files.GateList[0].Spec.Match.Kinds = []v1beta1.JudgedKind{"Workload", "Pod"}
	s.files.GateList[0].Spec.ImagePaths = []v1beta1.ImagePath{{
		Group: "runners.example.com", Kind: "Runner", Paths: []string{"spec.image", "spec.steps[*].image"},
	}}
	signed, unsigned := s.image("signed"), s.image("unsigned")
	for name, c := range map[string]struct {
		kind string
		spec map[string]any
		want []gate.Outcome
		says string
	}{
		"a signed image at a path":     {"Runner", map[string]any{"image": signed}, []gate.Outcome{gate.OutcomeAllow}, ""},
		"an unsigned one in a list":    {"Runner", map[string]any{"image": signed, "steps": []any{map[string]any{"image": unsigned}}}, []gate.Outcome{gate.OutcomeDeny}, "spec.steps[0].image"},
		"another shape at the path":    {"Runner", map[string]any{"image": []any{unsigned}}, []gate.Outcome{gate.OutcomeDeny}, "correct the field, or spec.imagePaths of Gate prod"},
		"no image at all":              {"Runner", map[string]any{}, []gate.Outcome{gate.OutcomeAllow}, ""},
		"a pod":                        {"Pod", map[string]any{"containers": []any{map[string]any{"image": unsigned}}}, []gate.Outcome{gate.OutcomeDeny}, "spec.containers[0].image"},
		"a kind that it does not name": {"ClusterRole", map[string]any{}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := s.object(c.kind, c.spec)
			if len(j.Verdicts) != len(c.want) || len(c.want) > 0 && j.Verdicts[0].Outcome != c.want[0] {
				t.Fatalf("verdicts: %+v", j.Verdicts)
			}
			if len(c.want) > 0 && !strings.Contains(string(j.Verdicts[0].Canonical()), c.says) {
				t.Errorf("%q is not said: %s", c.says, j.Verdicts[0].Canonical())
			}
		})
	}
}

// Admission refuses such a Gate; one that was stored before it did so is what has to change,
// and not what it judges.
func TestJudge_NamesTheGateWhosePathsCannotBeRead(t *testing.T) {
	s := newStand(t)
	s.files.GateList[0].Spec.ImagePaths = []v1beta1.ImagePath{{Group: "runners.example.com", Kind: "Runner", Paths: []string{"spec.image", "metadata.annotations.image"}}}
	j := s.object("Runner", map[string]any{"image": s.image("signed")})
	if len(j.Verdicts) != 1 || j.Verdicts[0].Outcome != gate.OutcomeDeny || len(j.Verdicts[0].Violations) != 1 {
		t.Fatalf("verdicts: %+v", j.Verdicts)
	}
	f := j.Verdicts[0].Violations[0]
	if f.Remedy != "correct spec.imagePaths of Gate prod" || f.Path != "" || !strings.Contains(f.Message, "Gate prod") || !strings.Contains(f.Message, "metadata.annotations.image") {
		t.Errorf("finding: %+v", f)
	}
}

func TestValidateGate_RefusesPathsThatCannotBeRead(t *testing.T) {
	s := newStand(t)
	g := s.gate("prod")
	g.Spec.ImagePaths = []v1beta1.ImagePath{{Group: "a.example.com", Kind: "A", Paths: []string{"spec.image", "spec[0].image"}}}
	errs := gather.ValidateGate(&g)
	if len(errs) != 1 || errs[0].Field != "spec.imagePaths[0].paths[1]" {
		t.Errorf("errors: %v", errs)
	}
}
