package rollout

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/kustomize/base/crds"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/schema"
)

func part(text string) intstr.IntOrString { return intstr.Parse(text) }

func batch(text string) v1beta1.Canary {
	p := part(text)
	return v1beta1.Canary{BatchSize: &p}
}

func stepped(steps ...v1beta1.CanaryStep) v1beta1.Canary { return v1beta1.Canary{Steps: steps} }

func to(text string, pause time.Duration) v1beta1.CanaryStep {
	s := v1beta1.CanaryStep{Replicas: part(text)}
	if pause != 0 {
		s.Pause = &metav1.Duration{Duration: pause}
	}
	return s
}

func TestSteps_Sentences(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int32
		canary   v1beta1.Canary
		want     []Step
	}{
		"one pod after the other, by default":              {3, v1beta1.Canary{}, []Step{{1, 0}, {2, 0}, {3, 0}}},
		"two at a time, and the rest":                      {5, batch("2"), []Step{{2, 0}, {4, 0}, {5, 0}}},
		"batches that come out even":                       {4, batch("2"), []Step{{2, 0}, {4, 0}}},
		"a percentage is rounded up":                       {10, batch("25%"), []Step{{3, 0}, {6, 0}, {9, 0}, {10, 0}}},
		"a percentage of few is one":                       {3, batch("1%"), []Step{{1, 0}, {2, 0}, {3, 0}}},
		"a batch of all is one step":                       {3, batch("100%"), []Step{{3, 0}}},
		"a batch of more than all is one step":             {3, batch("9"), []Step{{3, 0}}},
		"one replica is one step":                          {1, v1beta1.Canary{}, []Step{{1, 0}}},
		"no replicas are one step, over nothing":           {0, batch("2"), []Step{{0, 0}}},
		"steps replace batches":                            {10, v1beta1.Canary{BatchSize: batch("5").BatchSize, Steps: []v1beta1.CanaryStep{to("1", time.Minute), to("50%", 0)}}, []Step{{1, time.Minute}, {5, 0}, {10, 0}}},
		"a last step that is there is not added":           {10, stepped(to("1", 0), to("100%", time.Hour)), []Step{{1, 0}, {10, time.Hour}}},
		"steps beyond all are cut off, and are one":        {3, stepped(to("2", 0), to("5", 0), to("9", time.Minute)), []Step{{2, 0}, {3, time.Minute}}},
		"of two equal steps the longer pause stays":        {10, stepped(to("1", time.Hour), to("5%", time.Minute), to("20%", 0)), []Step{{1, time.Hour}, {2, 0}, {10, 0}}},
		"a step back is left out":                          {10, stepped(to("5", 0), to("2", 0), to("7", 0)), []Step{{5, 0}, {7, 0}, {10, 0}}},
		"what is neither a count nor a percentage is one":  {2, batch("many"), []Step{{1, 0}, {2, 0}}},
		"fewer than no replicas are none":                  {-1, v1beta1.Canary{}, []Step{{0, 0}}},
		"steps to no pods are to one, as a step has to be": {3, stepped(to("0", 0)), []Step{{1, 0}, {3, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Steps(c.replicas, c.canary); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestSteps_RiseToAllWithinTheLimit(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		replicas, c := random.Int32N(3000), v1beta1.Canary{}
		if random.IntN(2) == 0 {
			c = batch([]string{"1", "7", "33%", "100%", "2147483647", "2147483647%"}[random.IntN(6)])
		} else {
			for range random.IntN(21) {
				c.Steps = append(c.Steps, to([]string{"1", "5", "50", "1%", "40%", "99%"}[random.IntN(6)], time.Duration(random.IntN(3))))
			}
		}
		got := Steps(replicas, c)
		if len(got) == 0 || len(got) > limits.CanarySteps || got[len(got)-1].Pods != replicas {
			t.Fatalf("%d replicas: %d steps, %v", replicas, len(got), got)
		}
		for i, s := range got {
			if replicas > 0 && (s.Pods < 1 || i > 0 && s.Pods <= got[i-1].Pods) {
				t.Fatalf("%d replicas: step %d does not rise: %v", replicas, i, got)
			}
		}
	}
}

// An object that came through an API server and one that did not have the same plan.
func TestPlanOf_HasTheDefaultsOfTheCRD(t *testing.T) {
	set, err := schema.Load(crds.Files)
	if err != nil {
		t.Fatal(err)
	}
	for _, rollout := range []string{
		`{}`, `{"strategy":"Canary"}`, `{"strategy":"Canary","canary":{}}`, `{"progressDeadline":"1h30m"}`,
		`{"strategy":"Canary","canary":{"batchSize":"50%","analysis":{"metrics":[{"name":"a","query":"up","failIf":"< 1"}]}}}`,
	} {
		raw := `{"apiVersion":"sluice.dev/v1beta1","kind":"Workload","metadata":{"name":"a","namespace":"b"},"spec":{"image":"a","rollout":` + rollout + `}}`
		var plain, defaulted v1beta1.Workload
		var content map[string]any
		if err := json.Unmarshal([]byte(raw), &plain); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(raw), &content); err != nil {
			t.Fatal(err)
		}
		admitted, errs := set.Admit(context.Background(), content, v1beta1.GroupVersion.WithKind("Workload"))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		text, err := json.Marshal(admitted)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &defaulted); err != nil {
			t.Fatal(err)
		}
		got, want := PlanOf(&plain.Spec), PlanOf(&defaulted.Spec)
		if g, w := asText(t, got), asText(t, want); g != w {
			t.Errorf("%s: %s, with defaults %s", rollout, g, w)
		}
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPlanOf_ARollingUpdateIsOneStepThatIsNotWatched(t *testing.T) {
	three := int32(3)
	for _, r := range []*v1beta1.Rollout{nil, {}, {Strategy: v1beta1.RolloutRollingUpdate}} {
		p := PlanOf(&v1beta1.WorkloadSpec{Replicas: &three, Rollout: r})
		if !slices.Equal(p.Steps, []Step{{Pods: 3}}) || p.Interval != 0 || p.ProgressDeadline != 10*time.Minute {
			t.Errorf("%+v", p)
		}
	}
}
