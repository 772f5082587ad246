package lab

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/lab/node"
)

const digestImage = "registry.example/shop/web@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// newNamespace makes a namespace with pods admitted in it.
func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "lab-"}}
	create(t, ns)
	eventually(t, "namespace "+ns.Name+" has its ServiceAccount", func(ctx context.Context) error {
		return shared.client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
	return ns.Name
}

func template(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: digestImage}}},
	}
}

func deployment(namespace, name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name),
		},
	}
}

func podsOf(ctx context.Context, namespace, app string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := shared.client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": app})
	return pods.Items, err
}

// noPods is a condition.
func noPods(namespace, app string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := podsOf(ctx, namespace, app)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods))
		}
		return err
	}
}

// available is a condition.
func available(d *appsv1.Deployment, want int32) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := shared.client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if got := d.Status.AvailableReplicas; got != want || d.Status.ObservedGeneration != d.Generation {
			return fmt.Errorf("%d of %d replicas are available", got, want)
		}
		return nil
	}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func TestNode_RunsADeployment(t *testing.T) {
	ns := newNamespace(t)
	d := deployment(ns, "web", 2)
	create(t, d)
	eventually(t, "2 replicas are available", available(d, 2))

	pods, err := podsOf(t.Context(), ns, "web")
	if err != nil || len(pods) != 2 {
		t.Fatalf("got %d pods (%v), want 2", len(pods), err)
	}
	for _, pod := range pods {
		for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			if got := condition(&pod, kind); got != corev1.ConditionTrue {
				t.Errorf("%s: condition %s is %q, want True", pod.Name, kind, got)
			}
		}
		s := pod.Status.ContainerStatuses[0]
		if s.State.Running == nil || !s.Ready || s.Started == nil || !*s.Started || s.ImageID != digestImage {
			t.Errorf("%s: container is %+v, want it running, ready, started, with its digest", pod.Name, s)
		}
		if pod.Spec.NodeName != node.Name || pod.Status.PodIP == "" {
			t.Errorf("%s: on node %q with address %q", pod.Name, pod.Spec.NodeName, pod.Status.PodIP)
		}
	}
	if pods[0].Status.PodIP == pods[1].Status.PodIP {
		t.Errorf("both pods have the address %s", pods[0].Status.PodIP)
	}

	if err := shared.client.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pods are gone with their Deployment", noPods(ns, "web"))
}

func TestNode_RunsAStatefulSetInOrder(t *testing.T) {
	ns := newNamespace(t)
	replicas := int32(3)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Template: template("db"),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					},
				},
			}},
		},
	}
	order := watchReadiness(t, ns)
	create(t, set)
	eventually(t, "3 replicas are ready", func(ctx context.Context) error {
		if err := shared.client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if set.Status.ReadyReplicas != 3 {
			return fmt.Errorf("%d replicas are ready", set.Status.ReadyReplicas)
		}
		return nil
	})
	want := []string{"db-0 created", "db-0 ready", "db-1 created", "db-1 ready", "db-2 created", "db-2 ready"}
	if got := order(len(want)); !slices.Equal(got, want) {
		t.Errorf("the pods came in the order %q, want %q", got, want)
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := shared.client.List(t.Context(), claims, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	if len(claims.Items) != 3 {
		t.Fatalf("got %d claims, want 3", len(claims.Items))
	}
	for _, claim := range claims.Items {
		if claim.Status.Phase != corev1.ClaimBound {
			t.Errorf("claim %s is %s, want Bound", claim.Name, claim.Status.Phase)
		}
	}
	volumesFollowClaims(t, set, claims.Items)
}

// volumesFollowClaims deletes the set and its claims; the volumes have to go too.
func volumesFollowClaims(t *testing.T, set *appsv1.StatefulSet, claims []corev1.PersistentVolumeClaim) {
	t.Helper()
	if err := shared.client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pods are gone with their StatefulSet", noPods(set.Namespace, "db"))
	for _, claim := range claims {
		if err := shared.client.Get(t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{}); err != nil {
			t.Fatalf("the volume has to outlive the pods: %v", err)
		}
		if err := shared.client.Delete(t.Context(), &claim); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the volume of "+claim.Name+" is gone", gone(client.ObjectKey{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{}))
	}
}

// gone is a condition.
func gone(key client.ObjectKey, o client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		err := shared.client.Get(ctx, key, o)
		if err == nil {
			return fmt.Errorf("%T %s is there", o, key)
		}
		return client.IgnoreNotFound(err)
	}
}

// watchReadiness records when pods of a namespace are created and become ready, in the
// order the API server gave their events. The function waits for the first n of them.
func watchReadiness(t *testing.T, namespace string) func(n int) []string {
	t.Helper()
	c, err := client.NewWithWatch(shared.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	return func(n int) (order []string) {
		defer w.Stop()
		ready := map[string]bool{}
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				t.Fatalf("watch of pods: %+v", event.Object)
			}
			if event.Type == watch.Added {
				order = append(order, pod.Name+" created")
			}
			if condition(pod, corev1.PodReady) == corev1.ConditionTrue && !ready[pod.Name] {
				ready[pod.Name] = true
				order = append(order, pod.Name+" ready")
			}
			if len(order) >= n {
				return order
			}
		}
		return order
	}
}

func TestNode_LeavesAClaimOfAnUnknownClassPending(t *testing.T) {
	ns := newNamespace(t)
	claim := func(name, class string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class,
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "waits"}, Spec: template("waits").Spec}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "typo"},
	}}}
	create(t, claim("typo", "no-such-class"), pod, claim("later", node.StorageClass))
	later := &corev1.PersistentVolumeClaim{}
	eventually(t, "the claim made after it is Bound", func(ctx context.Context) error {
		if err := shared.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "later"}, later); err != nil {
			return err
		}
		if later.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", later.Status.Phase)
		}
		return nil
	})
	eventually(t, "the pod is scheduled", func(ctx context.Context) error {
		if err := shared.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if condition(pod, corev1.PodScheduled) != corev1.ConditionTrue {
			return fmt.Errorf("it is on node %q", pod.Spec.NodeName)
		}
		return nil
	})
	if pod.Status.Phase != corev1.PodPending {
		t.Errorf("the pod is %s without its volume, want Pending", pod.Status.Phase)
	}
}

func TestNode_LeavesPodsOfOtherNodesAlone(t *testing.T) {
	ns := newNamespace(t)
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "someone-elses"}}
	theirs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "theirs"}, Spec: template("theirs").Spec}
	theirs.Spec.NodeName = other.Name
	gated := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gated"}, Spec: template("gated").Spec}
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/hold"}}
	d := deployment(ns, "after", 1)
	create(t, other, theirs, gated, d)
	eventually(t, "a later pod is ready", available(d, 1))
	for _, pod := range []*corev1.Pod{theirs, gated} {
		before := pod.ResourceVersion
		if err := shared.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		if pod.ResourceVersion != before {
			t.Errorf("%s was touched: %+v", pod.Name, pod.Status)
		}
	}
}

func TestNode_CompletesAJob(t *testing.T) {
	ns := newNamespace(t)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "backup"}, Spec: batchv1.JobSpec{Template: template("backup")}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	create(t, job)
	eventually(t, "the Job is complete", func(ctx context.Context) error {
		if err := shared.client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		for _, c := range job.Status.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", job.Status)
	})
	pods, err := podsOf(t.Context(), ns, "backup")
	if err != nil || len(pods) != 1 {
		t.Fatalf("got %d pods (%v), want 1", len(pods), err)
	}
	if done := pods[0].Status.ContainerStatuses[0].State.Terminated; done == nil || done.ExitCode != 0 {
		t.Errorf("its container is %+v, want terminated with code 0", pods[0].Status.ContainerStatuses[0].State)
	}
}

func TestNode_PlaysAFailingImageUntilTheAnnotationGoes(t *testing.T) {
	cases := map[string]struct {
		reason string
		phase  corev1.PodPhase
	}{
		"a container that crashes has run":     {"CrashLoopBackOff", corev1.PodRunning},
		"an image that cannot be pulled waits": {"ImagePullBackOff", corev1.PodPending},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			d := deployment(ns, "bad", 1)
			d.Spec.Template.Annotations = map[string]string{node.FailAnnotation: c.reason}
			create(t, d)
			var pod corev1.Pod
			eventually(t, "its container waits with "+c.reason, func(ctx context.Context) error {
				pods, err := podsOf(ctx, ns, "bad")
				if err != nil || len(pods) != 1 || len(pods[0].Status.ContainerStatuses) != 1 {
					return fmt.Errorf("%d pods (%v)", len(pods), err)
				}
				pod = pods[0]
				if w := pod.Status.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != c.reason {
					return fmt.Errorf("it is %+v", pod.Status.ContainerStatuses[0].State)
				}
				return nil
			})
			if pod.Status.Phase != c.phase || condition(&pod, corev1.PodReady) != corev1.ConditionFalse {
				t.Errorf("the pod is %s and Ready=%s, want %s and False", pod.Status.Phase, condition(&pod, corev1.PodReady), c.phase)
			}
			eventually(t, "its Deployment counts no pod as available", available(d, 0))
			delete(pod.Annotations, node.FailAnnotation)
			if err := shared.client.Update(t.Context(), &pod); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is available once the annotation is gone", available(d, 1))
		})
	}
}

func TestCluster_CollectsWhatAnOwnerLeaves(t *testing.T) {
	ns := newNamespace(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner"}}
	create(t, owner)
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: "child",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}
	stranger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "stranger"}}
	create(t, child, stranger)
	if err := shared.client.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child is collected", gone(client.ObjectKeyFromObject(child), child))
	if err := shared.client.Get(t.Context(), client.ObjectKeyFromObject(stranger), stranger); err != nil {
		t.Errorf("an object without owner was touched: %v", err)
	}
}

func TestNode_PlaysAThousandPods(t *testing.T) {
	if testing.Short() {
		t.Skip("a load test")
	}
	ns := newNamespace(t)
	d := deployment(ns, "many", 1000)
	create(t, d)
	eventually(t, "1,000 replicas are available", available(d, 1000))
	if err := shared.client.Delete(t.Context(), d); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	eventually(t, "1,000 pods are gone", noPods(ns, "many"))
	for _, p := range shared.Processes()[:3] {
		rss, err := p.RSS()
		t.Logf("%s holds %d MiB after it (%v)", p.Name(), rss>>20, err)
	}
}
