package conformance

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/lab"
)

const (
	signedImage   = "registry.example.com/shop/cache:7.2.4"
	unsignedImage = "registry.example.com/shop/report:0.9.0"
)

// TestObjects_ArePartOfTheGate asks a real API server, with the webhook configuration of
// the component.
func TestObjects_ArePartOfTheGate(t *testing.T) {
	s := newSuite(t)
	s.judgeObjects(t)
	typed, err := client.New(s.stage.Cluster.Config(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("an unsigned pod is refused", func(t *testing.T) {
		refusedFor(t, typed.Create(t.Context(), pod("unsigned", unsignedImage)), "spec.containers[0].image")
	})
	t.Run("an unsigned init container is refused", func(t *testing.T) {
		p := pod("init", signedImage)
		p.Spec.InitContainers = []corev1.Container{{Name: "prepare", Image: unsignedImage}}
		refusedFor(t, typed.Create(t.Context(), p), "spec.initContainers[0].image")
	})
	t.Run("an unsigned image of a CronJob is refused", func(t *testing.T) {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "batch/v1", "kind": "CronJob", "metadata": map[string]any{"name": "nightly", "namespace": "pods"},
			"spec": map[string]any{"schedule": "0 3 * * *", "jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{
				"spec": map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": unsignedImage}}}}}}},
		}}
		refusedFor(t, typed.Create(t.Context(), u), "spec.jobTemplate.spec.template.spec.containers[0].image")
	})
	running := pod("signed", signedImage)
	if err := typed.Create(t.Context(), running); err != nil {
		t.Fatalf("a signed pod: %v", err)
	}
	debug := func(image string) error {
		// The node writes status meanwhile.
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := typed.Get(t.Context(), client.ObjectKeyFromObject(running), running); err != nil {
				return err
			}
			running.Spec.EphemeralContainers = append(running.Spec.EphemeralContainers, corev1.EphemeralContainer{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: image},
			})
			return typed.SubResource("ephemeralcontainers").Update(t.Context(), running)
		})
	}
	t.Run("an unsigned ephemeral container of a running pod is refused", func(t *testing.T) {
		refusedFor(t, debug(unsignedImage), "spec.ephemeralContainers[0].image")
	})
	t.Run("a signed one is admitted", func(t *testing.T) {
		if err := debug(signedImage); err != nil {
			t.Error(err)
		}
	})
	t.Run("an edit that changes nothing that runs is admitted", func(t *testing.T) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"seen":"yes"}}}`))
		if err := typed.Patch(t.Context(), running, patch); err != nil {
			t.Error(err)
		}
	})
	t.Run("a kind that no Gate names is admitted", func(t *testing.T) {
		p := pod("elsewhere", unsignedImage)
		p.Namespace = "default"
		if err := typed.Create(t.Context(), p); err != nil {
			t.Error(err)
		}
	})
}

// judgeObjects applies the Gate and the component, and waits until both count.
func (s *suite) judgeObjects(t *testing.T) {
	t.Helper()
	hooks := s.objects(t, "testdata/objects")
	lab.RedirectWebhooks(hooks, s.stage.WebhookURL)
	if err := s.stage.Cluster.Apply(t.Context(), append(s.objects(t, "testdata/objects-gate.yaml"), hooks...)); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := s.client.Create(ctx, pod("probe", unsignedImage), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "denied by gate pods"), nil
	})
	if err != nil {
		t.Fatalf("wait for the webhook to be asked about pods: %v", err)
	}
}

func pod(name, image string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "pods"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
	}
}

func refusedFor(t *testing.T, err error, path string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "no signature that authority release-key accepts") {
		t.Errorf("the API server answers: %v", err)
	}
}
