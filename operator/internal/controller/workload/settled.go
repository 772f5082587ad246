package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// settled looks, before a Workload is attested that has done well since a time, at what
// the children's status does not tell: whether a pod was not ready for a moment that no
// reconcile saw, whether a pod runs something else than the judged template, and whether
// there is any. It returns since when there has been none of that. What pods say of themselves can so take time off,
// and never add any.
func (r *Reconciler) settled(ctx context.Context, s *scope, since time.Time) (time.Time, error) {
	for _, d := range s.desired {
		if stray := strayImage(d, find(s.owned, d)); stray != "" {
			return s.now, nil
		}
	}
	wanted, err := templateImages(find(s.desired, primary(s.owned)))
	if err != nil {
		return since, err
	}
	pods := &corev1.PodList{}
	err = r.Live.List(ctx, pods, client.InNamespace(s.workload.Namespace), client.MatchingLabels(render.Selector(s.workload.Name)), client.Limit(limits.SoakPods))
	if err != nil {
		return since, fmt.Errorf("list pods in %s: %w", s.workload.Namespace, err)
	}
	if pods.Continue != "" {
		return since, fmt.Errorf("more than %d pods have the labels of %s (limits.SoakPods)", limits.SoakPods, s.workload.Name)
	}
	seen := false
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		seen = true
		if at := readySince(pod); pod.DeletionTimestamp != nil || !runsImages(pod, wanted) || at.IsZero() || at.After(s.now) {
			since = s.now
		} else if at.After(since) {
			since = at
		}
	}
	if !seen {
		return s.now, nil
	}
	return since, nil
}

// templateImages are those of the containers of a pods' controller, by name.
func templateImages(controller *unstructured.Unstructured) (map[string]string, error) {
	template := corev1.PodTemplateSpec{}
	if controller != nil {
		content, _, _ := unstructured.NestedMap(controller.Object, "spec", "template")
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &template); err != nil {
			return nil, about("read the pod template of", controller.GetKind(), controller, err)
		}
	}
	return containerImages(&template.Spec), nil
}

func containerImages(spec *corev1.PodSpec) map[string]string {
	out := map[string]string{}
	for _, c := range append(append([]corev1.Container{}, spec.InitContainers...), spec.Containers...) {
		out[c.Name] = c.Image
	}
	return out
}

// runsImages says whether a pod has the containers of the template with their images. It
// may have more: what is injected is judged at admission, where a Gate asks for that.
func runsImages(pod *corev1.Pod, wanted map[string]string) bool {
	has := containerImages(&pod.Spec)
	for name, image := range wanted {
		if has[name] != image {
			return false
		}
	}
	return true
}

// readySince is since when a pod has been ready; zero where it is not.
func readySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
