package workload

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

func TestTroubleOf_SaysWhatKeepsAPodFromBeingReady(t *testing.T) {
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "back-off 5m0s"}}
	}
	ended := func(code int32, reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: "password=hunter2"}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	app := func(state, last corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "sidecar", State: runs, Ready: true}, {Name: "app", State: state, LastTerminationState: last},
		}}
	}
	none := corev1.ContainerState{}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"a crash loop":           {app(waits("CrashLoopBackOff"), ended(1, "Error")), "container app waits with CrashLoopBackOff, after exit code 1"},
		"an image":               {app(waits("ImagePullBackOff"), none), "container app waits with ImagePullBackOff"},
		"between two starts":     {app(ended(137, "OOMKilled"), none), "container app ended with exit code 137 (OOMKilled)"},
		"a probe":                {app(runs, none), "container app runs and is not ready"},
		"a probe that kills":     {app(runs, ended(143, "Error")), "container app runs and is not ready, after exit code 143"},
		"no node":                {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}}, "not scheduled: 0/3 nodes are available"},
		"nothing that is known":  {corev1.PodStatus{}, ""},
		"an init container":      {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: "fetch", State: waits("CrashLoopBackOff")}}, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: waits("PodInitializing")}}}, "container fetch waits with CrashLoopBackOff"},
		"one init that is done":  {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: "fetch", State: ended(0, "Completed"), Ready: true}}, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: waits("ErrImagePull")}}}, "container app waits with ErrImagePull"},
		"one that has not begun": {app(waits("ContainerCreating"), none), "container app waits with ContainerCreating"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := troubleOf(&corev1.Pod{Status: c.status}); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Once its pods are taken back, the status is all that is left to find out by.
func TestRollout_KeepsWhyPodsWereNotReady(t *testing.T) {
	b := newBench(t)
	w, _, _ := b.canarying("web", stepwise)
	for name, track := range map[string]string{"web-a": "", "web-canary-b": trackCanary} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace, Labels: map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web", labelTrack: track}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: w.Spec.Image}}},
		}
		create(t, pod)
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "app",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "Crash" + track}}}}}
		if err := api.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	b.told()
	b.clock.move(time.Hour)
	b.must(w)
	const want = "Pod web-canary-b: container app waits with Crashcanary"
	if events := strings.Join(b.told(), "\n"); !strings.Contains(events, want) {
		t.Errorf("events: %s", events)
	}
	if err := api.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(b.namespace), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.rests(w)
	b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
	if !strings.Contains(w.Status.Rollout.Message, want) {
		t.Errorf("status: %+v", w.Status.Rollout)
	}
	b.calm(w, "after it")
}

// Whoever may write the status of a pod cannot have it forgotten that a rollout failed, so
// that it begins anew with each process, and what ended long ago does not tell why.
func TestRollout_StaysFailedWhateverPodsSayOfThemselves(t *testing.T) {
	b := newBench(t)
	w, before, _ := b.canarying("web", stepwise)
	for name, status := range map[string]corev1.PodStatus{
		"a-ended": {Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}}}},
		"b-loud":  {Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "\x1b[2J" + strings.Repeat("0/3 nodes ", 40000)}}},
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace, Labels: map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web", labelTrack: trackCanary}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: w.Spec.Image}}},
		}
		create(t, pod)
		pod.Status = status
		if err := api.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.move(time.Hour)
	b.must(w)
	b.rests(w)
	b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
	b.restart()
	b.rests(w)
	b.expect(w, v1beta1.PhaseDegraded, reasonRolloutFailed)
	runs(t, b.child("Deployment", "web"), before, 4)
	if m := w.Status.Rollout.Message; strings.Contains(m, "a-ended") || !strings.Contains(m, `Pod b-loud: not scheduled: \x1b[2J0/3 nodes`) {
		t.Errorf("message: %s", m)
	}
}
