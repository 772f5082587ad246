package workload

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// everything is a Workload of every kind of child.
func everything(w *v1beta1.Workload) {
	w.Spec.Replicas = int32Of(3)
	w.Spec.Storage = &v1beta1.Storage{Size: "1024Mi", MountPath: "/data"}
	full(w)
}

// full is all that a Deployment and a StatefulSet have in common.
func full(w *v1beta1.Workload) {
	w.Spec.Config = &v1beta1.ConfigFiles{MountPath: "/etc/app", Files: map[string]string{"app.conf": "a=1"}}
	w.Spec.Env = []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}}
	w.Spec.Resources = resources("1000m", "1024Mi")
	w.Spec.Probes = &v1beta1.Probes{Readiness: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: portName("http")}}}}
	w.Spec.Availability = &v1beta1.Availability{Spread: []v1beta1.SpreadConstraint{{TopologyKey: "zone"}}}
	w.Spec.Backup = &v1beta1.Backup{Schedule: "0 3 * * *", Image: w.Spec.Image, S3: v1beta1.S3{Bucket: "b", Region: "r"}}
}

func int32Of(n int32) *int32 { return &n }

func portName(name string) intstr.IntOrString { return intstr.FromString(name) }

func resources(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

func names(children map[string]*unstructured.Unstructured) []string {
	var out []string
	for name := range children {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func imageOf(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	if u == nil {
		t.Fatal("no pods' controller")
	}
	containers, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) == 0 {
		t.Fatalf("containers: %v, %v", containers, err)
	}
	return containers[0].(map[string]any)["image"].(string)
}

func nestedInt(u *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(u.Object, path...)
	return n
}

func setNested(t *testing.T, u *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

// edit changes a child as kubectl edit does.
func (b *bench) edit(kind, name string, change func(*unstructured.Unstructured)) {
	b.t.Helper()
	u := b.child(kind, name)
	change(u)
	if err := api.Update(b.t.Context(), u, client.FieldOwner("kubectl-edit")); err != nil {
		b.t.Fatal(err)
	}
}

// patch changes a child by a JSON patch.
func (b *bench) patch(kind, name string, ops ...map[string]any) {
	b.t.Helper()
	raw, err := json.Marshal(ops)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := api.Patch(b.t.Context(), b.child(kind, name), client.RawPatch(types.JSONPatchType, raw), client.FieldOwner("kubectl-patch")); err != nil {
		b.t.Fatal(err)
	}
}
