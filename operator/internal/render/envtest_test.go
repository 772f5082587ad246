package render_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
