package node

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf is the status of a pod whose containers run, are done or fail as it asks for.
// What already is so keeps its times: availability counts from the time of readiness.
func (n *Node) statusOf(pod *corev1.Pod, now metav1.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	status.Phase = phaseOf(pod)
	status.HostIP, status.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	if status.PodIP == "" {
		status.PodIP = n.nextIP()
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	}
	if status.StartTime == nil {
		status.StartTime = &now
	}
	ready := ""
	switch {
	case status.Phase == corev1.PodSucceeded:
		ready = "PodCompleted"
	case failure(pod) != "":
		ready = "ContainersNotReady"
	}
	setCondition(&status, corev1.PodScheduled, "", now)
	setCondition(&status, corev1.PodReadyToStartContainers, "", now)
	setCondition(&status, corev1.PodInitialized, "", now)
	setCondition(&status, corev1.ContainersReady, ready, now)
	setCondition(&status, corev1.PodReady, ready, now)
	status.InitContainerStatuses = initStatuses(pod, now)
	status.ContainerStatuses = containerStatuses(pod, status.Phase, now)
	return status
}

// phaseOf is where a kubelet would see the pod. Only the pods of a Job have work that
// ends; a failing image that never came keeps its pod Pending.
func phaseOf(pod *corev1.Pod) corev1.PodPhase {
	owner := metav1.GetControllerOf(pod)
	switch reason := failure(pod); {
	case strings.Contains(reason, "Image"), strings.HasPrefix(reason, "Create"):
		return corev1.PodPending
	case reason != "":
		return corev1.PodRunning
	case owner != nil && owner.Kind == "Job" && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways:
		return corev1.PodSucceeded
	}
	return corev1.PodRunning
}

func failure(pod *corev1.Pod) string { return pod.Annotations[FailAnnotation] }

// nextIP counts through 10.244.0.0/16 without its first and last address. Nothing is
// reachable there.
func (n *Node) nextIP() string {
	i := (n.lastPod.Add(1)-1)%(1<<16-2) + 1
	return fmt.Sprintf("10.244.%d.%d", i>>8, i&0xff)
}

// setCondition makes a condition true, or false for a reason.
func setCondition(status *corev1.PodStatus, kind corev1.PodConditionType, reason string, now metav1.Time) {
	want := corev1.PodCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason,
		ObservedGeneration: status.ObservedGeneration, LastTransitionTime: now,
	}
	if reason != "" {
		want.Status = corev1.ConditionFalse
	}
	for i, c := range status.Conditions {
		if c.Type != kind {
			continue
		}
		if c.Status == want.Status {
			want.LastTransitionTime = c.LastTransitionTime
		}
		status.Conditions[i] = want
		return
	}
	status.Conditions = append(status.Conditions, want)
}

// initStatuses are done, except for sidecars, which keep running.
func initStatuses(pod *corev1.Pod, now metav1.Time) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, c := range pod.Spec.InitContainers {
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		s := playContainer(pod, c, pod.Status.InitContainerStatuses)
		if sidecar {
			run(&s, now)
		} else {
			finish(&s, now)
			s.Ready = true // as a kubelet reports an init container that succeeded
		}
		all = append(all, s)
	}
	return all
}

func containerStatuses(pod *corev1.Pod, phase corev1.PodPhase, now metav1.Time) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, c := range pod.Spec.Containers {
		s := playContainer(pod, c, pod.Status.ContainerStatuses)
		switch {
		case failure(pod) != "":
			fail(&s, failure(pod))
		case phase == corev1.PodSucceeded:
			finish(&s, now)
		default:
			run(&s, now)
		}
		all = append(all, s)
	}
	return all
}

// playContainer carries a container's state over from before, unless its image changed
// in place: then it starts anew.
func playContainer(pod *corev1.Pod, c corev1.Container, before []corev1.ContainerStatus) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: imageID(c.Image)}
	for _, old := range before {
		if old.Name != c.Name {
			continue
		}
		s.RestartCount = old.RestartCount
		if old.Image == c.Image {
			s.State = old.State
		} else {
			s.RestartCount++
		}
	}
	s.ContainerID = fmt.Sprintf("lab://%s/%s/%d", pod.UID, c.Name, s.RestartCount)
	return s
}

// imageID is the image by digest when its reference has one. The lab pulls nothing, so
// it does not know the digest behind a tag and claims none.
func imageID(image string) string {
	if !strings.Contains(image, "@sha256:") {
		return ""
	}
	return image
}

func run(s *corev1.ContainerStatus, now metav1.Time) {
	started := true
	s.Ready, s.Started = true, &started
	if s.State.Running == nil {
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	}
}

func finish(s *corev1.ContainerStatus, now metav1.Time) {
	started := false
	s.Ready, s.Started = false, &started
	if s.State.Terminated == nil {
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: now, FinishedAt: now, ContainerID: s.ContainerID,
		}}
	}
}

// fail plays a container that does not start. The message says who plays it, for those
// who find the pod and not the annotation.
func fail(s *corev1.ContainerStatus, reason string) {
	started := false
	s.Ready, s.Started, s.ContainerID = false, &started, ""
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: reason, Message: "played because of the annotation " + FailAnnotation,
	}}
	if reason == "CrashLoopBackOff" && s.RestartCount == 0 {
		s.RestartCount = 1
	}
}
