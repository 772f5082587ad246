package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	noon  = metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	later = metav1.NewTime(noon.Add(time.Hour))
)

const pinned = "registry.example/web@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u", Generation: 1},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/web:1"}}},
	}
	change(p)
	return p
}

func ownedByJob(policy corev1.RestartPolicy) func(*corev1.Pod) {
	yes := true
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j", Controller: &yes}}
		p.Spec.RestartPolicy = policy
	}
}

func failing(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{FailAnnotation: reason} }
}

func TestNode_StatusFollowsTheSpec(t *testing.T) {
	cases := map[string]struct {
		change func(*corev1.Pod)
		phase  corev1.PodPhase
		ready  corev1.ConditionStatus
	}{
		"a plain pod runs":                        {func(*corev1.Pod) {}, corev1.PodRunning, corev1.ConditionTrue},
		"a pod of a Job is done":                  {ownedByJob(corev1.RestartPolicyNever), corev1.PodSucceeded, corev1.ConditionFalse},
		"a pod of a Job that may restart is done": {ownedByJob(corev1.RestartPolicyOnFailure), corev1.PodSucceeded, corev1.ConditionFalse},
		"a pod without a Job never ends": {
			func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }, corev1.PodRunning, corev1.ConditionTrue,
		},
		"a crash has run before":             {failing("CrashLoopBackOff"), corev1.PodRunning, corev1.ConditionFalse},
		"an image that is not there pends":   {failing("ErrImagePull"), corev1.PodPending, corev1.ConditionFalse},
		"a container with bad config pends":  {failing("CreateContainerConfigError"), corev1.PodPending, corev1.ConditionFalse},
		"an empty annotation is no failure":  {failing(""), corev1.PodRunning, corev1.ConditionTrue},
		"a Job's pod that fails is not done": {func(p *corev1.Pod) { ownedByJob("Never")(p); failing("CrashLoopBackOff")(p) }, corev1.PodRunning, corev1.ConditionFalse},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := (&Node{}).statusOf(pod(c.change), noon)
			if got.Phase != c.phase {
				t.Errorf("phase is %s, want %s", got.Phase, c.phase)
			}
			for _, condition := range got.Conditions {
				if condition.Type == corev1.PodReady && condition.Status != c.ready {
					t.Errorf("Ready is %s, want %s", condition.Status, c.ready)
				}
			}
			if len(got.Conditions) != 5 || len(got.ContainerStatuses) != 1 {
				t.Errorf("got %d conditions and %d containers, want 5 and 1", len(got.Conditions), len(got.ContainerStatuses))
			}
		})
	}
}

func TestNode_StatusSettles(t *testing.T) {
	n := &Node{}
	for name, change := range map[string]func(*corev1.Pod){
		"running": func(*corev1.Pod) {}, "done": ownedByJob(corev1.RestartPolicyNever), "failing": failing("CrashLoopBackOff"),
	} {
		p := pod(change)
		p.Status = n.statusOf(p, noon)
		if again := n.statusOf(p, later); !equality.Semantic.DeepEqual(p.Status, again) {
			t.Errorf("a %s pod was played twice with different ends:\n%+v\n%+v", name, p.Status, again)
		}
	}
}

func TestNode_StatusRestartsAContainerWhoseImageChanged(t *testing.T) {
	n, p := &Node{}, pod(func(*corev1.Pod) {})
	p.Status = n.statusOf(p, noon)
	p.Spec.Containers[0].Image = pinned
	got := n.statusOf(p, later).ContainerStatuses[0]
	if got.Image != pinned || got.ImageID != pinned || got.RestartCount != 1 || !got.State.Running.StartedAt.Equal(&later) {
		t.Errorf("got %+v, want the new image, started anew", got)
	}
	if before := p.Status.ContainerStatuses[0]; before.ImageID != "" || before.ContainerID == got.ContainerID {
		t.Errorf("got %+v before, want no digest for a tag and another id", before)
	}
}

func TestNode_StatusOfInitContainers(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	p := pod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "migrate"}, {Name: "proxy", RestartPolicy: &always}}
	})
	got := (&Node{}).statusOf(p, noon).InitContainerStatuses
	if len(got) != 2 || got[0].State.Terminated == nil || got[1].State.Running == nil || !got[1].Ready {
		t.Errorf("got %+v, want the first done and the sidecar running", got)
	}
}

func TestNode_AddressesStayInTheirRange(t *testing.T) {
	n := &Node{}
	seen := map[string]bool{}
	for range 1<<16 - 2 {
		seen[n.nextIP()] = true
	}
	if len(seen) != 1<<16-2 || seen["10.244.0.0"] || seen["10.244.255.255"] || !seen["10.244.0.1"] || !seen["10.244.255.254"] {
		t.Errorf("got %d addresses, want every host of 10.244.0.0/16 once", len(seen))
	}
	if again := n.nextIP(); again != "10.244.0.1" {
		t.Errorf("after the last address comes %s", again)
	}
}
