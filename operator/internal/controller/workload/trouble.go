package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// unended leaves out pods that ended, such as an evicted one: they are kept for long, and are
// not among those that were waited for.
var unended = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)))

// podTrouble says why a pod of the step that failed is not ready, empty where none tells.
// It is evidence: once the pods are taken back, nobody can look at them any more. That they
// cannot be listed is no reason to let them run on.
func (r *Reconciler) podTrouble(ctx context.Context, s *scope) string {
	labels := client.MatchingLabels(render.Selector(s.workload.Name))
	if s.ownCanary() && s.beforeLast() {
		labels[labelTrack] = trackCanary
	}
	pods := &corev1.PodList{}
	err := r.Live.List(ctx, pods, client.InNamespace(s.workload.Namespace), labels,
		client.MatchingFieldsSelector{Selector: unended}, client.Limit(limits.TroubledPods))
	if err != nil {
		logf.FromContext(ctx).Error(err, "Could not look at the pods of a step that failed")
		return ""
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil || podReady(pod) {
			continue
		}
		if text := troubleOf(pod); text != "" {
			// It is noted on the pods' controller, which takes no note without an end: the failure
			// would be forgotten with this process.
			return "; Pod " + pod.Name + ": " + redact.Text(text, limits.TroubleBytes)
		}
	}
	return ""
}

// troubleOf names what keeps a pod from being ready. What a container left as its last
// message is not shown: it may be a part of its log.
func troubleOf(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		before := ""
		if last := c.LastTerminationState.Terminated; last != nil {
			before = ", after " + ending(last)
		}
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "PodInitializing":
			return "container " + c.Name + " waits with " + cmp.Or(c.State.Waiting.Reason, "no reason") + before
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			return "container " + c.Name + " ended with " + ending(c.State.Terminated)
		case c.State.Running != nil && !c.Ready:
			return "container " + c.Name + " runs and is not ready" + before
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "not scheduled: " + cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

func ending(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" {
		text += " (" + t.Reason + ")"
	}
	return text
}
