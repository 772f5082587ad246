package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/health"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/rollout"
)

// vigil is what the process remembers of the step that a rollout is at. After a restart
// the step is watched anew.
type vigil struct {
	// began is when the step began, or this process came to it.
	began time.Time
	// blind is since when nobody could look: while the Workload is paused, or something in
	// the way. That time counts neither for the step nor against it.
	blind    time.Time
	ready    bool
	since    time.Time
	measured time.Time
	latest   []v1beta1.Measurement
	failures int
}

// plan is the steps to take. Where a canary has a Deployment of its own, the last step is
// the update of the Workload's Deployment itself, which comes after at least one step on
// the canary's: at one replica, too, the first pod of a new revision is a further one.
func (s *scope) plan() rollout.Plan {
	spec := s.workload.Spec.DeepCopy()
	if p := primary(s.owned); p != nil {
		n := s.replicasWanted(p)
		spec.Replicas = &n
	}
	plan := rollout.PlanOf(spec)
	if s.ownCanary() && len(plan.Steps) == 1 {
		plan.Steps = append(plan.Steps, rollout.Step{Pods: plan.Steps[0].Pods})
	}
	return plan
}

// ownCanary says whether the canary's pods are of a Deployment of their own. A StatefulSet
// takes steps by its partition.
func (s *scope) ownCanary() bool {
	return isCanary(&s.workload.Spec) && s.workload.Spec.Storage == nil
}

// position in the plan, which may have become shorter.
func (s *scope) position() int {
	return min(s.release.course.Step, len(s.release.plan.Steps)-1)
}

// beforeLast says whether the step at hand is one on the canary's own Deployment.
func (s *scope) beforeLast() bool { return s.position() < len(s.release.plan.Steps)-1 }

// pods of the step at hand that run the new revision.
func (s *scope) pods() int32 { return s.release.plan.Steps[s.position()].Pods }

// progress is what Advance has to know of the step at hand.
func (s *scope) progress() rollout.Progress {
	c, w := s.release.course, &s.memory.vigil
	w.open(s.now)
	if ready := s.stepReady(); ready != w.ready || w.since.IsZero() {
		w.ready, w.since = ready, s.now
	}
	return rollout.Progress{
		Plan: s.release.plan, Step: c.Step, Began: w.began, Ready: w.ready, Since: w.since,
		Measured: w.measured, Latest: w.latest, Failures: w.failures,
	}
}

// open begins to look, or goes on where it could not for a while.
func (w *vigil) open(now time.Time) {
	if w.began.IsZero() {
		*w = vigil{began: now}
		return
	}
	if !w.blind.IsZero() {
		gap := max(0, now.Sub(w.blind))
		w.began, w.since, w.blind = w.began.Add(gap), w.since.Add(gap), time.Time{}
	}
}

// close notes that a reconcile did not come to look at the step.
func (w *vigil) close(now time.Time) {
	if w.blind.IsZero() {
		w.blind = now
	}
}

// stepReady says whether every pod of the step at hand runs the new revision and is ready.
func (s *scope) stepReady() bool {
	live := primary(s.owned)
	if s.ownCanary() && s.beforeLast() {
		live = canaryOf(s.owned)
	}
	if live == nil || live.GetAnnotations()[annotationRevision] != s.release.revision {
		return false
	}
	if live.GetKind() == "Deployment" {
		return nestedCount(live, "spec", "replicas") >= s.pods() && s.serves(live)
	}
	seen, _, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	return seen >= live.GetGeneration() && partition(live) <= s.keeps() &&
		count(live, "updatedReplicas") >= s.pods() && count(live, "readyReplicas") >= nestedCount(live, "spec", "replicas")
}

// serves says whether every pod of a pods' controller is of the revision at hand and ready.
func (s *scope) serves(live *unstructured.Unstructured) bool {
	return live != nil && live.GetAnnotations()[annotationRevision] == s.release.revision && health.Of(live).Status == health.Healthy
}

func nestedCount(u *unstructured.Unstructured, path ...string) int32 {
	n, _, _ := unstructured.NestedInt64(u.Object, path...)
	return int32(n)
}

func canaryOf(children []*unstructured.Unstructured) *unstructured.Unstructured {
	i := slices.IndexFunc(children, func(c *unstructured.Unstructured) bool {
		return ofCanary(c) && c.GetDeletionTimestamp() == nil
	})
	if i < 0 {
		return nil
	}
	return children[i]
}

var partitionPath = []string{"spec", "updateStrategy", "rollingUpdate", "partition"}

func partition(u *unstructured.Unstructured) int32 { return nestedCount(u, partitionPath...) }

// keeps is how many pods of a StatefulSet stay on the stable revision at the step at hand.
func (s *scope) keeps() int32 {
	last := s.release.plan.Steps[len(s.release.plan.Steps)-1].Pods
	return max(0, last-s.pods())
}

// twoRevisions says whether a canary is to run beside the stable revision.
func (s *scope) twoRevisions() bool {
	stage := s.release.stage
	return (stage == rollout.InCanary || stage == rollout.Failed) && isCanary(&s.workload.Spec)
}

// shape turns the judged children into those that the stage of the rollout asks for. All
// that it changes is how many pods run which of two judged templates.
func (s *scope) shape(children []map[string]any) ([]map[string]any, error) {
	if !s.twoRevisions() {
		return children, nil
	}
	var out []map[string]any
	for _, content := range children {
		p := primary([]*unstructured.Unstructured{{Object: content}})
		if p == nil {
			out = append(out, content)
			continue
		}
		if p.GetKind() == "StatefulSet" {
			if s.release.old != nil && unseen(primary(s.owned)) {
				// Someone deleted it. A partition does not count for pods that are made anew: they
				// begin with the stable revision, which its controller has to see before another.
				continue
			}
			if err := setPartition(p, s.keeps()); err != nil {
				return nil, about("shape", p.GetKind(), p, err)
			}
			out = append(out, p.Object)
			continue
		}
		canary, err := s.canary(p)
		if err != nil {
			return nil, about("shape the canary of", p.GetKind(), p, err)
		}
		out = append(out, canary.Object)
		if !s.beforeLast() {
			out = append(out, p.Object)
		}
	}
	return append(out, s.stableChildren(out)...), nil
}

// unseen says whether there are no pods yet: no pods' controller, or one that was just made.
func unseen(p *unstructured.Unstructured) bool {
	return p == nil || count(p, "observedGeneration") == 0
}

func setPartition(p *unstructured.Unstructured, n int32) error {
	if kind, _, _ := unstructured.NestedString(p.Object, "spec", "updateStrategy", "type"); kind != "" && kind != "RollingUpdate" {
		return nil
	}
	if err := unstructured.SetNestedField(p.Object, "RollingUpdate", "spec", "updateStrategy", "type"); err != nil {
		return err
	}
	return unstructured.SetNestedField(p.Object, int64(n), partitionPath...)
}

// stableChildren are what the pods of the stable revision run by, and need, and the new
// one does not have: the pods' controller itself, as it was, and ConfigMaps under their old
// names.
func (s *scope) stableChildren(taken []map[string]any) []map[string]any {
	if s.release.old == nil {
		return nil
	}
	has := map[childKey]bool{}
	for _, content := range taken {
		has[keyOf(&unstructured.Unstructured{Object: content})] = true
	}
	var out []map[string]any
	for _, content := range s.release.old.Deployable() {
		u := &unstructured.Unstructured{Object: content}
		if has[keyOf(u)] || (u.GetKind() != kindConfigMap && !isPodsController(u)) {
			continue
		}
		out = append(out, content)
	}
	return out
}

// canary is the Deployment of a canary: the judged one under another name, with a further
// label by which it tells its pods from those of the Workload's own. The Service selects
// both.
func (s *scope) canary(p *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	c := p.DeepCopy()
	c.SetName(render.CanaryName(p.GetName()))
	c.SetLabels(withTrack(c.GetLabels()))
	step := s.position()
	if !s.beforeLast() {
		step--
	}
	if err := unstructured.SetNestedField(c.Object, int64(s.release.plan.Steps[max(0, step)].Pods), "spec", "replicas"); err != nil {
		return nil, err
	}
	for _, path := range [][]string{{"spec", "selector", "matchLabels"}, {"spec", "template", "metadata", "labels"}} {
		labels, _, err := unstructured.NestedStringMap(c.Object, path...)
		if err != nil {
			return nil, err
		}
		if err := unstructured.SetNestedStringMap(c.Object, withTrack(labels), path...); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func withTrack(labels map[string]string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelTrack] = trackCanary
	return labels
}

// freeStuckPods deletes pods of a StatefulSet that do not run the stable revision and are
// not ready: its controller waits for them before it goes on, and they never will be.
func (r *Reconciler) freeStuckPods(ctx context.Context, s *scope) error {
	p := primary(s.owned)
	if p == nil || p.GetKind() != "StatefulSet" || p.GetAnnotations()[annotationRevision] != s.release.revision {
		return nil
	}
	seen, _, _ := unstructured.NestedInt64(p.Object, "status", "observedGeneration")
	wanted, _, _ := unstructured.NestedString(p.Object, "status", "updateRevision")
	if seen < p.GetGeneration() || wanted == "" || s.serves(p) {
		return nil
	}
	pods := &corev1.PodList{}
	if err := r.Live.List(ctx, pods, client.InNamespace(p.GetNamespace()), client.MatchingLabels(render.Selector(s.workload.Name))); err != nil {
		return unreadable("PodsUnreadable", fmt.Errorf("list pods in %s: %w", p.GetNamespace(), err))
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !metav1.IsControlledBy(pod, p) || pod.DeletionTimestamp != nil || pod.Labels["controller-revision-hash"] == wanted || podReady(pod) {
			continue
		}
		logf.FromContext(ctx).Info("Deleting a pod of the failed revision that holds up the way back", "pod", pod.Name)
		uid := pod.UID
		if err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return refused("DeleteFailed", about("delete", "Pod", pod, err))
		}
		r.Metrics.ChildWrites.WithLabelValues("Pod", "delete").Inc()
	}
	return nil
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// rolloutStatus is what status tells of the rollout; nil where rollouts are not watched.
func rolloutStatus(s *scope) *v1beta1.RolloutStatus {
	rel := &s.release
	if rel.stable == nil && rel.course == nil {
		return nil
	}
	out := &v1beta1.RolloutStatus{}
	if rel.stable != nil {
		out.StableDigest, out.CurrentDigest = rel.stable.Digest, rel.stable.Digest
	}
	c := rel.course
	if c == nil || c.Done {
		if s.judgement != nil && s.judgement.Digests[s.workload.Spec.Image] != "" {
			out.CurrentDigest = s.judgement.Digests[s.workload.Spec.Image]
		}
		return out
	}
	out.CurrentDigest = c.Digest
	if c.Failed {
		out.FailedDigest, out.Message, out.Measurements = c.Digest, s.clip(rel.failure()), c.Evidence
		return out
	}
	out.Message, out.Measurements = s.clip(rel.decision.Message), rel.decision.Evidence
	if rel.stage == rollout.InCanary && len(rel.plan.Steps) > 0 {
		out.Step, out.Steps = int32(s.position())+1, int32(len(rel.plan.Steps))
	}
	return out
}

// observe is what this reconcile knows at its end, as package rollout wants to know it.
func observe(s *scope, o *obstacle) rollout.Observation {
	out := rollout.Observation{
		Deleting: !s.workload.DeletionTimestamp.IsZero(), Paused: s.workload.Spec.Paused,
		Applied: noted(s) != nil, Running: primary(s.owned) != nil, Release: s.release.stage,
	}
	if s.judgement != nil {
		out.Verdict = map[metav1.ConditionStatus]rollout.Verdict{
			metav1.ConditionTrue: rollout.Allowed, metav1.ConditionFalse: rollout.Denied, metav1.ConditionUnknown: rollout.Undecided,
		}[gatedCondition(s).Status]
	}
	if o != nil && (s.judgement == nil || !s.judgement.Blocked()) {
		out.Obstacle = map[kind]rollout.Obstacle{
			terminal: rollout.Refused, waiting: rollout.Missing, undecided: rollout.Unreadable, failed: rollout.WriteFailed, outdated: rollout.Unreadable,
		}[o.kind]
	}
	switch h, _ := worstHealth(s); {
	case h.Status == health.Degraded:
		out.Health = rollout.Degraded
	case h.Status == health.Healthy && len(s.growing) == 0:
		out.Health = rollout.Healthy
	}
	return out
}
