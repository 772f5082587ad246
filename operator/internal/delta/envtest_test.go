package delta_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

var api client.Client

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	env := &envtest.Environment{BinaryAssetsDirectory: filepath.Join("..", "..", "..", "bin", "tools")}
	config, err := env.Start()
	if err != nil {
		panic("start the control plane (run `make tools` first): " + err.Error())
	}
	defer func() { _ = env.Stop() }()
	if api, err = client.New(config, client.Options{}); err != nil {
		panic(err)
	}
	return m.Run()
}

func full() *v1beta1.Workload {
	three, one := int32(3), intstr.FromInt32(2)
	return &v1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: "orders-db", Namespace: "default"},
		Spec: v1beta1.WorkloadSpec{
			Image: "registry.example.com/shop/orders-db:1", Version: "1.0.0", Replicas: &three, Tenant: "shop",
			Ports:   []v1beta1.Port{{Name: "postgres", Port: 5432, Protocol: corev1.ProtocolTCP}},
			Env:     []corev1.EnvVar{{Name: "A", Value: "b"}},
			Storage: &v1beta1.Storage{Size: "1024Mi", MountPath: "/data"},
			Config:  &v1beta1.ConfigFiles{MountPath: "/etc/app", Files: map[string]string{"a": "b"}},
			Secrets: []v1beta1.SecretRef{{Name: "one", EnvFrom: true}, {Name: "two", MountPath: "/two"}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m"), corev1.ResourceMemory: resource.MustParse("1024Mi")},
			},
			Probes: &v1beta1.Probes{Readiness: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("postgres")}}}},
			Availability: &v1beta1.Availability{MinAvailable: &one, Spread: []v1beta1.SpreadConstraint{
				{TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway}}},
			Backup: &v1beta1.Backup{Schedule: "0 3 * * *", Image: "registry.example.com/shop/backup:1", S3: v1beta1.S3{Bucket: "b", Region: "r"}},
		},
	}
}

// apply creates every child and returns desired and live side by side.
func apply(t testing.TB, w *v1beta1.Workload) (desired, live []*unstructured.Unstructured) {
	t.Helper()
	ctx := context.Background()
	children, err := render.Children(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range children {
		d := &unstructured.Unstructured{Object: content}
		l := d.DeepCopy()
		if err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(l), client.FieldOwner("sluice"), client.ForceOwnership); err != nil {
			t.Fatalf("apply %s %s: %v", d.GetKind(), d.GetName(), err)
		}
		t.Cleanup(func() { _ = api.Delete(ctx, l) })
		if err := api.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
			t.Fatal(err)
		}
		desired, live = append(desired, d), append(live, l)
	}
	return desired, live
}

func TestCompare_FindsNoDriftInWhatTheAPIServerStored(t *testing.T) {
	for name, change := range map[string]func(*v1beta1.Workload){
		"a StatefulSet with everything": func(*v1beta1.Workload) {},
		"a Deployment with everything":  func(w *v1beta1.Workload) { w.Spec.Storage = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := full()
			change(w)
			desired, live := apply(t, w)
			for i := range desired {
				changes, err := delta.Compare(desired[i], live[i])
				if err != nil {
					t.Fatal(err)
				}
				if len(changes) != 0 {
					t.Errorf("%s %s drifts right after it was applied: %v", desired[i].GetKind(), desired[i].GetName(), changes)
				}
			}
		})
	}
}
