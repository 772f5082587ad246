package workload

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// annotationScaled on the pods' controller says that the operator took its pods away, and
// how many there were.
const annotationScaled = "sluice.dev/scaled-to-zero"

// rest is how soon a Workload that nothing is wrong with is judged again.
func (s *scope) rest() time.Duration {
	if s.judgement == nil || s.judgement.Again <= 0 {
		return limits.Reverify
	}
	return s.judgement.Again
}

// enforce does what the Gates want done to what runs when it is denied, and only then: a
// denied update leaves the last good children as they are. It returns the denial, in words
// that say what was done. While a rollout is under way, what is denied is the new revision,
// and the pods of the stable one are not touched for it; once it went back, it is that one.
func (r *Reconciler) enforce(ctx context.Context, s *scope, denial *obstacle) error {
	canary := canaryOf(s.owned) != nil && s.judgement.Denied == v1beta1.OnFailureScaleToZero
	if !s.runs() || s.besides() && !canary {
		s.memory.denied = time.Time{}
		return denial
	}
	if s.memory.denied.IsZero() {
		s.memory.denied = s.now
	}
	if canary {
		return r.withdrawCanary(ctx, s, denial)
	}
	switch s.judgement.Denied {
	case v1beta1.OnFailureScaleToZero:
		return r.scaleToZero(ctx, s, denial)
	case v1beta1.OnFailureFreeze:
		return r.freeze(ctx, s, denial)
	}
	return denial
}

// besides says whether a rollout is under way, and the Workload's own pods have no part in
// it yet.
func (s *scope) besides() bool {
	p := primary(s.owned)
	if !s.release.underWay() || s.wentBack() || p == nil {
		return false
	}
	return p.GetAnnotations()[annotationRevision] != s.release.course.Revision || partition(p) > 0
}

// runs says whether what was judged is what runs: this generation was allowed before, and
// its children were applied with these very digests. What cannot be told is no.
func (s *scope) runs() bool {
	before := s.running()
	if before == nil || s.judgement.Children == nil {
		return false
	}
	for image, digest := range s.judgement.Digests {
		if before[image] != digest {
			return false
		}
	}
	return true
}

// running are the digests that the pods' controller was applied with in this generation, nil
// if it was not. Whoever edits the note on it does not get away from what this process
// remembers.
func (s *scope) running() map[string]string {
	if primary(s.owned) == nil {
		return nil
	}
	if before := noted(s); before != nil {
		return before
	}
	if m := s.memory; m.applied == s.workload.Generation && m.resolved.Generation == s.workload.Generation {
		return m.resolved.Digests
	}
	return nil
}

// scaleToZero takes the pods away, once a denial has stood for a while. They come back by
// resume. An autoscaler leaves a target without pods alone.
func (r *Reconciler) scaleToZero(ctx context.Context, s *scope, denial *obstacle) error {
	p := primary(s.owned)
	before, scaled := p.GetAnnotations()[annotationScaled]
	if left := s.memory.denied.Add(limits.DenialStands).Sub(s.now); !scaled && left > 0 {
		s.lookAgain(left)
		denial.message = "its pods are taken away if this stands for " + limits.DenialStands.String() + ": " + denial.message
		return denial
	}
	done := *denial
	done.reason = reasonScaledToZero
	done.message = "it has no pods until the gate allows it again: " + denial.message
	replicas, found, err := unstructured.NestedInt64(p.Object, replicasPath...)
	if err != nil || !found {
		replicas = 1 // as the API server has it
	}
	if replicas == 0 {
		return &done
	}
	if wait := s.memory.pause(keyOf(p), true, s.now); scaled && wait > 0 {
		// Someone gives it pods again and again.
		s.lookAgain(wait)
		return denial
	}
	if !scaled {
		before = strconv.FormatInt(replicas, 10)
	} else {
		s.memory.putBack(keyOf(p), s.now, nil)
	}
	logf.FromContext(ctx).Info("Scaling to zero what the gate denies", "kind", p.GetKind(), "child", p.GetName(), "replicas", replicas)
	return denied(&done, denial, r.rescale(ctx, s, p, 0, &before))
}

// denied is what is told of a denial: done, or where that failed the denial itself and
// why. What has to be read again first is not told.
func denied(done, denial *obstacle, err error) *obstacle {
	o := obstacleOf(err)
	switch {
	case o == nil:
		return done
	case o.kind == outdated:
		return o
	}
	denial.message += "; what the Gate wants done about it failed: " + o.message
	return denial
}

// withdrawCanary takes the Deployment of a canary away, once its denial has stood for a
// while. It is made again when the gate allows it.
func (r *Reconciler) withdrawCanary(ctx context.Context, s *scope, denial *obstacle) error {
	if left := s.memory.denied.Add(limits.DenialStands).Sub(s.now); left > 0 {
		s.lookAgain(left)
		return denial
	}
	canary := canaryOf(s.owned)
	s.memory.lose(keyOf(canary))
	return denied(denial, denial, r.remove(ctx, canary))
}

func scaledToZero(live *unstructured.Unstructured) bool {
	_, scaled := live.GetAnnotations()[annotationScaled]
	replicas, found, _ := unstructured.NestedInt64(live.Object, replicasPath...)
	return scaled && found && replicas == 0
}

// resume gives pods back to what had to go without: as many as the spec says, or as there
// were where others decide. It comes after apply, so that those that start are those that
// were allowed.
func (r *Reconciler) resume(ctx context.Context, s *scope) error {
	p := primary(s.owned)
	if p == nil || find(s.desired, p) == nil {
		// Beside a canary, the pods of a stable revision that is not allowed any more stay away.
		return nil
	}
	before, scaled := p.GetAnnotations()[annotationScaled]
	if !scaled {
		return nil
	}
	replicas, _, _ := unstructured.NestedInt64(p.Object, replicasPath...)
	if replicas == 0 {
		replicas = int64(*s.workload.Spec.Replicas)
		// Whoever may forge the note may as well scale.
		if n, err := strconv.ParseInt(before, 10, 32); err == nil && n > 0 && s.leavesReplicas(p) {
			replicas = n
		}
	}
	logf.FromContext(ctx).Info("Giving pods back to what the gate allows", "kind", p.GetKind(), "child", p.GetName(), "replicas", replicas)
	return r.rescale(ctx, s, p, replicas, nil)
}

// leavesReplicas says whether others decide how many pods there are.
func (s *scope) leavesReplicas(p *unstructured.Unstructured) bool {
	for _, path := range s.left(p) {
		if len(path) <= len(replicasPath) && strings.HasPrefix(strings.Join(replicasPath, "/")+"/", strings.Join(path, "/")+"/") {
			return true
		}
	}
	return false
}

// rescale sets how many pods there are, and the note of it, or takes that off. Nothing
// else of the child is touched, and it fails rather than undo a write that was not seen.
func (r *Reconciler) rescale(ctx context.Context, s *scope, p *unstructured.Unstructured, replicas int64, note *string) error {
	marks := "/metadata/annotations/" + strings.ReplaceAll(annotationScaled, "/", "~1")
	mark := operation{Op: "remove", Path: marks}
	if note != nil {
		mark = operation{Op: "add", Path: marks, Value: *note}
	}
	patch, err := json.Marshal([]operation{
		{Op: "replace", Path: "/metadata/resourceVersion", Value: p.GetResourceVersion()},
		{Op: "replace", Path: "/metadata/uid", Value: string(p.GetUID())},
		{Op: "add", Path: "/spec/replicas", Value: replicas},
		mark,
	})
	if err != nil {
		return about("scale", p.GetKind(), p, err)
	}
	answer := p.DeepCopy()
	if err := r.Client.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldManager)); err != nil {
		return refused("ScaleFailed", about("scale", p.GetKind(), p, err))
	}
	r.Metrics.ChildWrites.WithLabelValues(p.GetKind(), "scale").Inc()
	s.wrote(answer)
	return nil
}

// freeze holds the children as they were when they were allowed last: what others change
// is put back, and nothing else is written. No Secret that changed rolls the pods, no
// volume grows, and a new version of the operator renders nothing anew.
func (r *Reconciler) freeze(ctx context.Context, s *scope, denial *obstacle) error {
	done := *denial
	done.reason = reasonFrozen
	done.message = "its children are held as they were when it was allowed: " + denial.message
	// What is noted is what runs; the judgement itself is told as it is. What the pods refer to
	// is not looked at, so that their mark stays.
	judged, mark := *s.judgement, s.memory.mark
	held := judged
	held.Digests = s.running()
	s.judgement, s.incomplete, s.complete = &held, true, true
	err := run(ctx, s, r.leaveToOthers, r.claim, r.keepClaimSizes, r.putBack)
	s.judgement, s.incomplete, s.memory.mark = &judged, false, mark
	return denied(&done, denial, err)
}

// putBack settles the children that are there, or were, with the content that was applied
// last. Pods that someone deleted with their controller are not started anew.
func (r *Reconciler) putBack(ctx context.Context, s *scope) error {
	for _, d := range s.desired {
		live := find(s.owned, d)
		if live == nil && images.PodSpec(d.Object) != nil {
			continue
		}
		if live != nil && live.GetAnnotations()[annotationDesired] != d.GetAnnotations()[annotationDesired] && !disowned(d, live) {
			continue
		}
		if err := r.settle(ctx, s, d); err != nil {
			return err
		}
	}
	return nil
}
