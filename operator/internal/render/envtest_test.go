package render_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

var api client.Client

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	env := &envtest.Environment{BinaryAssetsDirectory: filepath.Join("..", "..", "..", "bin", "tools")}
	config, err := env.Start()
	if err != nil {
		panic("start the control plane (run `make tools` first): " + err.Error())
	}
	defer func() { _ = env.Stop() }()
	plain, err := client.New(config, client.Options{})
	if err != nil {
		panic(err)
	}
	api = client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	if err := api.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		panic(err)
	}
	return m.Run()
}

// TestChildren_AreTakenByTheAPIServer: what passed the gate must not fail when it is
// applied.
func TestChildren_AreTakenByTheAPIServer(t *testing.T) {
	longest := database()
	longest.Name = strings.Repeat("a", 52)
	longest.Spec.Secrets = []v1beta1.SecretRef{
		{Name: "db.credentials", MountPath: "/a"}, {Name: strings.Repeat("b", 253), MountPath: "/b"}, {Name: "db-credentials", MountPath: "/c"},
	}
	almost := full()
	almost.Name = strings.Repeat("a", 46)
	temporary := database()
	temporary.Spec.Storage.MountPath = "/tmp"
	portless := database()
	portless.Spec.Ports, portless.Spec.Probes = nil, nil
	for name, w := range map[string]*v1beta1.Workload{
		"deployment": full(), "statefulset": database(), "least": least(), "the longest name": longest,
		"a name with no room for a suffix": almost, "data in /tmp": temporary, "no ports": portless,
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			for _, c := range children(t, w) {
				u := &unstructured.Unstructured{Object: c}
				if id := u.GetKind() + "/" + u.GetName(); seen[id] {
					t.Errorf("%s is there twice", id)
				} else {
					seen[id] = true
				}
				if err := api.Create(context.Background(), u, client.DryRunAll); err != nil {
					t.Errorf("%s: %v", u.GetKind(), err)
				}
			}
		})
	}
}

// The API server's own admission holds pods of such a namespace to the restricted standard.
func TestChildren_RunInARestrictedNamespace(t *testing.T) {
	restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "restricted-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := api.Create(t.Context(), restricted); err != nil {
		t.Fatal(err)
	}
	open := podTemplates(t, children(t, full()))["Deployment"]
	open.Spec.SecurityContext = nil
	open.Spec.Containers[0].SecurityContext = nil
	try := func(pod corev1.PodTemplateSpec) error {
		return api.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-", Namespace: restricted.Name, Labels: pod.Labels}, Spec: pod.Spec}, client.DryRunAll)
	}
	if err := try(open); !apierrors.IsForbidden(err) {
		t.Fatalf("the namespace is not restricted: %v", err)
	}
	for name, w := range map[string]*v1beta1.Workload{"deployment": full(), "statefulset": database(), "least": least()} {
		for kind, pod := range podTemplates(t, children(t, w)) {
			// The StatefulSet's controller adds the volume.
			if kind == "StatefulSet" {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
			}
			if err := try(pod); err != nil {
				t.Errorf("%s: a pod of the %s: %v", name, kind, err)
			}
		}
	}
}

func TestChildren_LongNamesStayApart(t *testing.T) {
	names := map[string]bool{}
	for _, end := range []string{"a", "b"} {
		w := full()
		w.Name = strings.Repeat("a", 51) + end
		names[child(children(t, w), "CronJob").GetName()] = true
	}
	if len(names) != 2 {
		t.Errorf("two Workloads, and CronJobs %v", names)
	}
}
