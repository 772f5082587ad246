package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Action is what to do with a rollout now.
type Action string

// The actions.
const (
	// Hold: leave it at its step and look again at Decision.Until, or when a pod changes.
	Hold Action = "Hold"
	// Proceed: the step passed; begin the next one.
	Proceed Action = "Step"
	// Finish: the last step passed.
	Finish Action = "Finish"
	// Fail: take it back, or leave it as it is where the spec does not ask for that.
	Fail Action = "Fail"
)

// Reasons of a Hold and of a Fail; they are reasons of conditions and events too.
const (
	// ReasonPodsNotReady: pods of the step are not ready.
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonPodsUnstable: pods of the step do not stay ready for as long as they are watched.
	ReasonPodsUnstable = "PodsUnstable"
	// ReasonWatching: the step is watched.
	ReasonWatching = "Watching"
	// ReasonMetricFailed: failIf holds for a metric.
	ReasonMetricFailed = "MetricFailed"
	// ReasonMetricWithoutData: a metric has no value.
	ReasonMetricWithoutData = "MetricWithoutData"
	// ReasonMetricUnknown: a metric was not measured, or could not be.
	ReasonMetricUnknown = "MetricUnknown"
)

// Decision is what to do, and why.
type Decision struct {
	Action Action
	// Until is when a Hold has to be looked at again at the latest; never before now. It is
	// now where metrics are due.
	Until time.Time
	// Reason of a Hold and of a Fail.
	Reason string
	// Message for people: what, and for a Fail what to do. It holds no time, so that it is
	// the same at each look.
	Message string
	// Evidence is the last measurement of each metric of the step.
	Evidence []v1beta1.Measurement
}

// Progress is what is known of a rollout at its current step. Whoever keeps it starts each
// step with nothing but Plan, Step and Began. What is lost in a restart is gathered again,
// and Began is when the new process came to the step: it is then watched for longer.
type Progress struct {
	// Plan of the rollout.
	Plan Plan
	// Step is the position in Plan.Steps. One behind the end, as after scaling down, counts
	// as the last.
	Step int
	// Began is when the step began.
	Began time.Time
	// Ready says that all pods of the step run the new revision and are ready.
	Ready bool
	// Since is since when Ready is what it is; zero, or before Began, counts as Began.
	Since time.Time
	// Measured is when the metrics were measured last in this step, see Add.
	Measured time.Time
	// Latest is what that gave.
	Latest []v1beta1.Measurement
	// Failures is how many measurements failed in this step.
	Failures int
}

// Due says whether the metrics have to be measured now. The caller then measures them all
// and hands them to Add, with the same now, before it asks Advance.
func (p Progress) Due(now time.Time) bool {
	return len(p.Plan.Metrics) > 0 && p.Ready && !now.Before(p.nextMeasurement())
}

// nextMeasurement is when metrics are due. What was measured before the pods became ready
// says nothing about them.
func (p Progress) nextMeasurement() time.Time {
	if p.Measured.Before(p.since()) {
		return p.since()
	}
	interval := max(p.Plan.Interval, time.Second)
	return p.Measured.Add(min(interval/limits.CanaryMeasurements, limits.CanaryMeasureEvery))
}

// Add is the progress after all metrics were measured once more. Measurements of metrics
// that are not in the plan are left out.
func (p Progress) Add(round []v1beta1.Measurement, now time.Time) Progress {
	p.Measured, p.Latest = now, nil
	for _, m := range round {
		if !slices.Contains(p.Plan.Metrics, m.Metric) {
			continue
		}
		p.Latest = append(p.Latest, m)
		if m.Outcome == v1beta1.MeasurementFailed || (m.Outcome == v1beta1.MeasurementNoData && p.Plan.NoData == v1beta1.NoDataFail) {
			p.Failures++
		}
	}
	return p
}

// Advance says what to do with a rollout now. A step passes when its pods have been ready
// for the interval and its pause in a row, and the last measurement of every metric is
// well. It fails when its pods are not ready in time, when as many measurements failed as
// the limit says, or when metrics are not well by the timeout. Whatever happens, a step is
// over within Plan.longest.
func Advance(p Progress, now time.Time) Decision {
	if len(p.Plan.Steps) == 0 {
		return Decision{Action: Finish}
	}
	if limit := max(1, p.Plan.FailureLimit); p.Failures >= limit {
		return p.fail(ReasonMetricFailed, fmt.Sprintf("%s; %d measurements failed, and failureLimit is %d", p.describe(p.notWell()), p.Failures, limit))
	}
	end := p.Began.Add(p.Plan.longest(p.step()))
	if !p.Ready {
		return p.unready(now, earlier(p.since().Add(p.Plan.ProgressDeadline), end))
	}
	watched := p.since().Add(p.Plan.Interval + p.step().Pause)
	if now.Before(watched) {
		if !now.Before(end) {
			return p.fail(ReasonPodsUnstable, "its pods did not stay ready for as long as they are watched; see why they restart")
		}
		return p.hold(now, earlier(watched, end), ReasonWatching, "its pods are ready and watched")
	}
	return p.judge(now, earlier(p.since().Add(p.Plan.watch()+p.step().Pause), end))
}

// longest is how long a step may take: pods that use all of their deadline, and metrics
// that use all of theirs.
func (p Plan) longest(s Step) time.Duration { return p.ProgressDeadline + p.watch() + s.Pause }

func (p Plan) watch() time.Duration {
	if len(p.Metrics) == 0 {
		return p.Interval
	}
	return max(p.Interval, p.Timeout)
}

func (p Progress) unready(now, deadline time.Time) Decision {
	if now.Before(deadline) {
		return p.hold(now, deadline, ReasonPodsNotReady, "waiting for its pods to be ready")
	}
	return p.fail(ReasonPodsNotReady, fmt.Sprintf("its pods are not ready, and progressDeadline is %s; see their events and logs", p.Plan.ProgressDeadline))
}

// judge decides on a step that was watched for long enough.
func (p Progress) judge(now, deadline time.Time) Decision {
	name := p.notWell()
	if name == "" && !p.Due(now) {
		if p.position() == len(p.Plan.Steps)-1 {
			return Decision{Action: Finish, Evidence: p.Latest}
		}
		return Decision{Action: Proceed, Evidence: p.Latest}
	}
	reason := p.reason(name)
	if now.Before(deadline) {
		return p.hold(now, deadline, reason, p.describe(name))
	}
	return p.fail(reason, fmt.Sprintf("%s, and analysis.timeout is %s", p.describe(name), p.Plan.Timeout))
}

func (p Progress) hold(now, until time.Time, reason, message string) Decision {
	if p.Ready && len(p.Plan.Metrics) > 0 {
		until = earlier(until, p.nextMeasurement())
	}
	if until.Before(now) {
		until = now
	}
	return Decision{Action: Hold, Until: until, Reason: reason, Message: p.where() + message, Evidence: p.Latest}
}

func (p Progress) fail(reason, message string) Decision {
	return Decision{Action: Fail, Reason: reason, Message: p.where() + message, Evidence: p.Latest}
}

func (p Progress) where() string {
	pods := "pods"
	if p.step().Pods == 1 {
		pods = "pod"
	}
	return fmt.Sprintf("step %d of %d (%d %s): ", p.position()+1, len(p.Plan.Steps), p.step().Pods, pods)
}

func (p Progress) position() int { return min(max(0, p.Step), len(p.Plan.Steps)-1) }

func (p Progress) step() Step { return p.Plan.Steps[p.position()] }

// since is from when on the pods of this step count as what they are.
func (p Progress) since() time.Time {
	if p.Since.Before(p.Began) {
		return p.Began
	}
	return p.Since
}

// notWell names the first metric of the plan that is not well; empty when all are. A value
// that fails comes before one that is not there.
func (p Progress) notWell() string {
	first := ""
	for _, name := range p.Plan.Metrics {
		m, ok := p.latest(name)
		switch {
		case ok && m.Outcome == v1beta1.MeasurementFailed:
			return name
		case ok && m.Outcome == v1beta1.MeasurementPassed, ok && m.Outcome == v1beta1.MeasurementNoData && p.Plan.NoData == v1beta1.NoDataPass:
		case first == "":
			first = name
		}
	}
	return first
}

func (p Progress) latest(name string) (v1beta1.Measurement, bool) {
	i := slices.IndexFunc(p.Latest, func(m v1beta1.Measurement) bool { return m.Metric == name })
	if i < 0 {
		return v1beta1.Measurement{}, false
	}
	return p.Latest[i], true
}

func (p Progress) reason(name string) string {
	m, _ := p.latest(name)
	switch m.Outcome {
	case v1beta1.MeasurementFailed:
		return ReasonMetricFailed
	case v1beta1.MeasurementNoData:
		return ReasonMetricWithoutData
	default:
		return ReasonMetricUnknown
	}
}

// describe says in words how a metric is. Values are in Evidence: they change with each
// look.
func (p Progress) describe(name string) string {
	m, ok := p.latest(name)
	switch {
	case !ok:
		return "metrics have to be measured"
	case m.Outcome == v1beta1.MeasurementFailed:
		return "metric " + name + " fails"
	case m.Outcome == v1beta1.MeasurementNoData:
		return "metric " + name + " has no data; see whether its query matches what the pods expose, or set analysis.noData"
	case m.Outcome == v1beta1.MeasurementUnreachable:
		return "metric " + name + " could not be read, since Prometheus does not answer"
	default:
		return "metric " + name + " could not be read: " + m.Message
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
