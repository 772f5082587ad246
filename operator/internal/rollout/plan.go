package rollout

import (
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// The defaults of the API, for objects that did not come through an API server. A test
// holds them to those of the CRD.
const (
	defaultProgressDeadline = 10 * time.Minute
	defaultInterval         = 30 * time.Second
	defaultTimeout          = 5 * time.Minute
	defaultFailureLimit     = 1
)

// Step is one step of a rollout.
type Step struct {
	// Pods that run the new revision after this step.
	Pods int32
	// Pause is how much longer than the interval this step is watched.
	Pause time.Duration
}

// Plan is a rollout from its first step to its last.
type Plan struct {
	// Steps to take, of which the last is all pods; at least one.
	Steps []Step
	// ProgressDeadline is how long the pods of one step may take to become ready.
	ProgressDeadline time.Duration
	// Interval is how long the pods of one step have to have been ready in a row.
	Interval time.Duration
	// FailureLimit is at how many failed measurements within one step the rollout fails.
	FailureLimit int
	// Metrics that have to be well, by name. With none, the pods alone decide, and what is
	// below means nothing.
	Metrics []string
	// NoData says what a measurement without a value means.
	NoData v1beta1.NoDataPolicy
	// Timeout is how long after its pods are ready the metrics of a step may take to be
	// well, its pause apart.
	Timeout time.Duration
}

// PlanOf is the plan for a spec. A rolling update is one step that is not watched.
func PlanOf(spec *v1beta1.WorkloadSpec) Plan {
	replicas := int32(1)
	if spec.Replicas != nil {
		replicas = max(0, *spec.Replicas)
	}
	plan := Plan{Steps: []Step{{Pods: replicas}}, ProgressDeadline: defaultProgressDeadline, FailureLimit: defaultFailureLimit}
	if spec.Rollout == nil {
		return plan
	}
	plan.ProgressDeadline = durationOr(spec.Rollout.ProgressDeadline, defaultProgressDeadline)
	if spec.Rollout.Strategy != v1beta1.RolloutCanary {
		return plan
	}
	c := v1beta1.Canary{}
	if spec.Rollout.Canary != nil {
		c = *spec.Rollout.Canary
	}
	plan.Steps = Steps(replicas, c)
	plan.Interval = durationOr(c.Interval, defaultInterval)
	plan.FailureLimit = max(defaultFailureLimit, int(c.FailureLimit))
	if c.Analysis != nil {
		plan.Timeout = durationOr(c.Analysis.Timeout, defaultTimeout)
		plan.NoData = c.Analysis.NoData
		if plan.NoData == "" {
			plan.NoData = v1beta1.NoDataWait
		}
		for _, m := range c.Analysis.Metrics {
			plan.Metrics = append(plan.Metrics, m.Name)
		}
	}
	return plan
}

func durationOr(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}

// Steps are the steps of a canary over so many replicas: strictly rising, the last is all.
// Without spec.steps they are even batches. A step that is not larger than the one before
// it is left out, and the longer of the two pauses stays.
func Steps(replicas int32, c v1beta1.Canary) []Step {
	if replicas <= 0 {
		return []Step{{}}
	}
	var out []Step
	add := func(s Step) {
		s.Pods = min(s.Pods, replicas)
		if n := len(out); n > 0 && s.Pods <= out[n-1].Pods {
			out[n-1].Pause = max(out[n-1].Pause, s.Pause)
			return
		}
		out = append(out, s)
	}
	if len(c.Steps) == 0 {
		for _, pods := range batches(replicas, c.BatchSize) {
			add(Step{Pods: pods})
		}
	}
	for _, s := range c.Steps {
		add(Step{Pods: share(s.Replicas, replicas), Pause: max(0, durationOr(s.Pause, 0))})
	}
	add(Step{Pods: replicas})
	return out
}

// batches are the ends of even batches below replicas, at most limits.CanarySteps of them.
func batches(replicas int32, size *intstr.IntOrString) []int32 {
	batch := int64(1)
	if size != nil {
		batch = int64(share(*size, replicas))
	}
	batch = max(batch, (int64(replicas)+limits.CanarySteps-1)/limits.CanarySteps)
	var out []int32
	for pods := batch; pods < int64(replicas); pods += batch {
		out = append(out, int32(pods))
	}
	return out
}

// share is a count, or a percentage of all rounded up; at least 1. What is neither counts
// as 1, the most careful.
func share(part intstr.IntOrString, all int32) int32 {
	if part.Type == intstr.Int {
		return max(1, part.IntVal)
	}
	number, ok := strings.CutSuffix(part.StrVal, "%")
	percent, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil || percent < 1 {
		return 1
	}
	return int32(min((int64(all)*percent+99)/100, math.MaxInt32))
}
