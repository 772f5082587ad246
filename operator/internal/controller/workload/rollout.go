package workload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/health"
	"github.com/sluice-dev/sluice/operator/internal/rollout"
)

const (
	// annotationRollout on the pods' controller says how far a rollout is.
	annotationRollout = "sluice.dev/rollout"
	// annotationRevision on the pods' controller is the hash of the pod template that was
	// judged, so that its status can be told from that of another template.
	annotationRevision = "sluice.dev/revision"
	// labelTrack marks a canary's own Deployment and its pods, which it selects by it.
	labelTrack  = "sluice.dev/track"
	trackCanary = "canary"

	kindRecord = "ControllerRevision"
)

// Measurer looks at the metrics of a canary, one measurement for each in their order.
type Measurer interface {
	Measure(ctx context.Context, metrics []v1beta1.Metric, now time.Time) []v1beta1.Measurement
}

// Unmeasured is the Measurer of an operator that has no Prometheus.
type Unmeasured struct{}

// Measure says of each metric that nobody can be asked.
func (Unmeasured) Measure(_ context.Context, metrics []v1beta1.Metric, _ time.Time) []v1beta1.Measurement {
	out := make([]v1beta1.Measurement, len(metrics))
	for i, m := range metrics {
		out[i] = v1beta1.Measurement{Metric: m.Name, Outcome: v1beta1.MeasurementError,
			Message: "the operator was started without --prometheus-address; set it, or remove spec.rollout.canary.analysis"}
	}
	return out
}

// course is the way of one revision to the pods, as far as it has come.
type course struct {
	// Revision of the pod template, and Digest of the main image, that are on their way.
	Revision string `json:"revision"`
	Digest   string `json:"digest,omitempty"`
	// Asked is a hash of the spec, see asked. The same is not tried again once it failed.
	Asked string `json:"asked"`
	// Step of the plan, from 0.
	Step int `json:"step"`
	// Mark of the pods of the stable revision, which keep it.
	Mark *mark `json:"mark,omitempty"`
	// Done: every step passed.
	Done bool `json:"done,omitempty"`
	// Failed, with why and what was measured.
	Failed   bool                  `json:"failed,omitempty"`
	Reason   string                `json:"reason,omitempty"`
	Message  string                `json:"message,omitempty"`
	Evidence []v1beta1.Measurement `json:"evidence,omitempty"`
}

// release is what a reconcile knows of the rollout of the current spec.
type release struct {
	// stable is the last revision whose pods were all ready; nil when there is none yet.
	stable *record
	// course of what the spec asks for; nil when nothing is under way.
	course *course
	// back says that the stable revision is judged and applied in place of the spec's.
	back bool
	// stage, and for a canary the plan and what was decided about its step.
	stage    rollout.Release
	plan     rollout.Plan
	decision rollout.Decision
	// old is the judgement of the stable revision beside a canary; nil where it is not
	// allowed any more, and its pods are left as they are.
	old *gather.Judgement
	// barred says that the way back is not allowed.
	barred bool
	// watched says that this reconcile looked at the step.
	watched bool
	// revision of the pod template that the spec, or the way back, asks for.
	revision string
}

// watchful says whether a spec's rollouts are watched: only then is the stable revision kept.
func watchful(spec *v1beta1.WorkloadSpec) bool {
	return spec.Rollout != nil && (spec.Rollout.Strategy == v1beta1.RolloutCanary || spec.Rollout.RollbackOnFailure)
}

func isCanary(spec *v1beta1.WorkloadSpec) bool {
	return spec.Rollout != nil && spec.Rollout.Strategy == v1beta1.RolloutCanary
}

// asked is a hash of what the spec asks for. How many pods, and whether the operator
// pauses, is no reason to try again what failed: an autoscaler changes the one all day.
func asked(spec *v1beta1.WorkloadSpec) string {
	s := *spec
	s.Replicas, s.Paused, s.Drift = nil, false, nil
	return hashOf(s)
}

func hashOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		// Specs and rendered objects came from JSON.
		panic(fmt.Sprintf("hash %T: %v", v, err))
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// revisionOf is the hash of the pod template among judged children; empty without one.
func revisionOf(children []map[string]any) string {
	for _, content := range children {
		if primary([]*unstructured.Unstructured{{Object: content}}) == nil {
			continue
		}
		template, _, _ := unstructured.NestedFieldNoCopy(content, "spec", "template")
		return hashOf(template)
	}
	return ""
}

// recallRollout finds the stable revision and the course that is under way, and whether
// the way leads back.
func (r *Reconciler) recallRollout(_ context.Context, s *scope) error {
	spec := &s.workload.Spec
	if !watchful(spec) {
		return nil
	}
	if s.release.stable = s.recorded(); s.release.stable == nil {
		s.release.stable = s.memory.stable
	}
	s.memory.stable = s.release.stable
	s.release.course = s.courseBefore()
	c := s.release.course
	s.release.back = c != nil && c.Failed && c.Asked == asked(spec) && spec.Rollout.RollbackOnFailure && s.release.stable != nil
	s.release.stage = s.stageBefore()
	return nil
}

// stageBefore is the stage as the reconcile before left it. It is told where this one does
// not come to steer: what cannot be looked at is not Ready for that.
func (s *scope) stageBefore() rollout.Release {
	c := s.release.course
	switch {
	case c == nil || c.Done || c.Asked != asked(&s.workload.Spec), !c.Failed && !isCanary(&s.workload.Spec):
		return rollout.Settled
	case !c.Failed:
		return rollout.InCanary
	case !s.release.back:
		return rollout.Failed
	case s.wentBack() && health.Of(primary(s.owned)).Status == health.Healthy:
		return rollout.BackOnStable
	}
	return rollout.RollingBack
}

// wentBack says whether the stable revision alone was applied in place of the spec's.
func (s *scope) wentBack() bool {
	p := primary(s.owned)
	return s.release.back && p != nil && p.GetAnnotations()[annotationRevision] == s.release.stable.Revision && canaryOf(s.owned) == nil
}

// courseBefore is the course as remembered, or after a restart as noted. A note that
// someone else wrote counts as none: the canary then starts anew.
func (s *scope) courseBefore() *course {
	if s.memory.course != nil {
		c := *s.memory.course
		return &c
	}
	p := primary(s.owned)
	if p == nil || !holds(p, annotationRollout) {
		return nil
	}
	c := &course{}
	if json.Unmarshal([]byte(p.GetAnnotations()[annotationRollout]), c) != nil || c.Revision == "" {
		return nil
	}
	return c
}

// steer decides how far the change may go now: it sets the stage, and moves the course on
// by a step or turns it back.
func (r *Reconciler) steer(ctx context.Context, s *scope) error {
	rel := &s.release
	rel.stage = rollout.Settled
	if !watchful(&s.workload.Spec) {
		s.memory.course, s.memory.stable = nil, nil
		return nil
	}
	if err := r.keepRecord(ctx, s); err != nil {
		return err
	}
	rel.revision = revisionOf(s.judgement.Deployable())
	s.memory.course = rel.course
	if rel.back {
		return r.wayBack(ctx, s)
	}
	if rel.stable == nil || rel.stable.Revision == rel.revision {
		// Nothing to go back to, or nowhere to go: the children's health says all there is.
		s.memory.course, rel.course = nil, nil
		return nil
	}
	if c := rel.course; c != nil && c.Done && c.Revision == rel.revision {
		return nil
	}
	old := r.Judge.Workload(ctx, rel.stable.workload(s.workload), rel.stable.Digests)
	if !old.Blocked() {
		rel.old = &old
		if revisionOf(old.Deployable()) == rel.revision {
			// Only how the operator renders has changed.
			s.memory.course, rel.course = nil, nil
			return nil
		}
	} else if done, err := r.withoutStable(ctx, s, old.Verdicts); done || err != nil {
		return err
	}
	if c := rel.course; c == nil || c.Revision != rel.revision || c.Asked != asked(&s.workload.Spec) {
		rel.course = s.setOut()
		s.memory.course, s.memory.vigil = rel.course, vigil{}
	}
	return r.onward(ctx, s)
}

// withoutStable is what comes of a stable revision that the gate does not let through. Where
// it is denied and has no pods any more, there is nothing to keep beside a canary: done says
// that the new revision goes on without one. Where that cannot be told, and its pods'
// controller is gone, nothing begins in its place.
func (r *Reconciler) withoutStable(ctx context.Context, s *scope, verdicts []gate.Verdict) (done bool, err error) {
	p, worst, rel := primary(s.owned), gate.Worst(verdicts), &s.release
	switch {
	case worst.Outcome == gate.OutcomeDeny && (p == nil || scaledToZero(p)):
		s.memory.course, rel.course, s.memory.stable, rel.stable = nil, nil, nil, nil
		return true, r.dropRecords(ctx, s)
	case p == nil:
		return true, &obstacle{kind: undecided, reason: reasonUndecided, message: "the stable revision, whose pods' controller is gone: " + explain(worst)}
	}
	return false, nil
}

// setOut is a course at its first step. The stable pods' mark is from before any course.
func (s *scope) setOut() *course {
	before, spec := s.release.course, &s.workload.Spec
	c := &course{Revision: s.release.revision, Digest: s.judgement.Digests[spec.Image], Asked: asked(spec), Mark: marked(s)}
	if before != nil && !before.Done && before.Mark != nil {
		c.Mark = before.Mark
	}
	return c
}

// onward looks at the step that the course is at.
func (r *Reconciler) onward(ctx context.Context, s *scope) error {
	rel, c := &s.release, s.release.course
	rel.watched = true
	rel.plan = s.plan()
	rel.stage = rollout.InCanary
	if c.Failed {
		return r.turnBack(ctx, s)
	}
	p := s.progress()
	if p.Due(s.now) {
		p = p.Add(r.Analysis.Measure(ctx, s.workload.Spec.Rollout.Canary.Analysis.Metrics, s.now), s.now)
		s.memory.vigil.measured, s.memory.vigil.latest, s.memory.vigil.failures = p.Measured, p.Latest, p.Failures
	}
	rel.decision = rollout.Advance(p, s.now)
	switch d := rel.decision; d.Action {
	case rollout.Hold:
		s.lookAgain(max(d.Until.Sub(s.now), time.Second))
		if !isCanary(&s.workload.Spec) {
			rel.stage = rollout.Settled
		}
	case rollout.Proceed:
		c.Step++
		s.memory.vigil = vigil{}
		// What is told is how the next step stands.
		rel.decision = rollout.Advance(s.progress(), s.now)
		s.lookAgain(time.Second)
	case rollout.Finish:
		c.Done, rel.stage = true, rollout.Settled
	case rollout.Fail:
		c.Failed, c.Reason, c.Message, c.Evidence = true, d.Reason, d.Message, d.Evidence
		if d.Reason == rollout.ReasonPodsNotReady || d.Reason == rollout.ReasonPodsUnstable {
			c.Message += r.podTrouble(ctx, s)
		}
		return r.turnBack(ctx, s)
	}
	return nil
}

// turnBack ends a course that failed. Where the spec asks for it, the stable revision is
// applied from now on, if the gate still lets it through.
func (r *Reconciler) turnBack(ctx context.Context, s *scope) error {
	rel := &s.release
	rel.stage = rollout.Failed
	if !s.workload.Spec.Rollout.RollbackOnFailure {
		return nil
	}
	if rel.old == nil {
		rel.barred = true
		return nil
	}
	s.judgement, rel.revision = rel.old, revisionOf(rel.old.Deployable())
	// What the pods refer to is that of the stable revision again.
	if rel.course.Mark != nil {
		s.memory.mark = rel.course.Mark
	}
	s.seen, s.incomplete, s.lacking = "", false, nil
	if err := r.waitForReferences(ctx, s); err != nil {
		return err
	}
	return r.wayBack(ctx, s)
}

// wayBack takes the canary's own pods away at once, and knows when every pod is back.
func (r *Reconciler) wayBack(ctx context.Context, s *scope) error {
	s.release.stage = rollout.RollingBack
	gone := true
	for _, c := range s.owned {
		if !ofCanary(c) {
			continue
		}
		gone = false
		if err := r.remove(ctx, c); err != nil {
			return err
		}
	}
	if err := r.freeStuckPods(ctx, s); err != nil {
		return err
	}
	if gone && s.serves(primary(s.owned)) {
		s.release.stage = rollout.BackOnStable
	}
	return nil
}

// underWay says whether the way of a revision to the pods, or back, has not ended.
func (rel *release) underWay() bool { return rel.course != nil && !rel.course.Done }

// underWay says whether pods of two revisions run: what either of them needs has to stay.
func (s *scope) underWay() bool {
	switch s.release.stage {
	case rollout.InCanary, rollout.Failed, rollout.RollingBack:
		return true
	}
	return false
}

// failure is why the course failed, with what was measured.
func (rel *release) failure() string {
	c := rel.course
	text := c.Message
	if rel.barred {
		text += "; it is not taken back, since the gate does not allow the stable revision any more"
	}
	for i, m := range c.Evidence {
		sep := ", "
		if i == 0 {
			sep = "; measured: "
		}
		text += fmt.Sprintf("%s%s %s (%s)", sep, m.Metric, cmp.Or(m.Value, "nothing"), m.Outcome)
	}
	return text
}
