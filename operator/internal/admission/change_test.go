package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// stored makes a Workload with storage, its StatefulSet as the operator would, and one
// volume claim of a class.
func stored(t *testing.T, name string, expandable bool) *v1beta1.Workload {
	t.Helper()
	w := workload("enforce", name, push(t, "shop/"+name, true))
	w.Spec.Storage = &v1beta1.Storage{Size: "1Gi", MountPath: "/data"}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disks", AllowVolumeExpansion: &expandable}
	for _, o := range []client.Object{w, class} {
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	children, err := render.Children(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range children {
		child := &unstructured.Unstructured{Object: content}
		if child.GetKind() != "StatefulSet" {
			continue
		}
		child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(w, v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))})
		if err := api.Create(t.Context(), child); err != nil {
			t.Fatal(err)
		}
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data-" + name + "-0", Namespace: w.Namespace, Labels: render.ClaimLabels(name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if err := api.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWorkloads_RefuseAChangeThatTheChildrenCannotFollow(t *testing.T) {
	elastic, rigid := stored(t, "elastic", true), stored(t, "rigid", false)
	claimPatch := func(patch string) func(*v1beta1.Workload) {
		return func(w *v1beta1.Workload) {
			w.Spec.Patches = []v1beta1.Patch{{Patch: patch, Target: &v1beta1.PatchTarget{Kind: "StatefulSet"}}}
		}
	}
	for name, tc := range map[string]struct {
		workload *v1beta1.Workload
		change   func(*v1beta1.Workload)
		want     string
	}{
		"more replicas":                  {rigid, func(w *v1beta1.Workload) { *w.Spec.Replicas = 3 }, ""},
		"volumes that can grow":          {elastic, func(w *v1beta1.Workload) { w.Spec.Storage.Size = "2Gi" }, ""},
		"volumes that cannot":            {rigid, func(w *v1beta1.Workload) { w.Spec.Storage.Size = "2Gi" }, "spec.storage.size: volume claim data-rigid-0 has 1Gi and cannot grow to 2Gi: its StorageClass rigid does not set allowVolumeExpansion"},
		"another access mode by a patch": {elastic, claimPatch(`[{"op":"replace","path":"/spec/volumeClaimTemplates/0/spec/accessModes/0","value":"ReadWriteMany"}]`), "StatefulSet/elastic: spec.volumeClaimTemplates[0].spec.accessModes[0] cannot change once it exists"},
		"another service by a patch":     {elastic, claimPatch(`[{"op":"replace","path":"/spec/serviceName","value":"x"}]`), "StatefulSet/elastic: spec.serviceName cannot change once it exists"},
		"another update strategy":        {elastic, claimPatch(`[{"op":"add","path":"/spec/updateStrategy","value":{"type":"OnDelete"}}]`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := tc.workload.DeepCopy()
			tc.change(w)
			err := api.Update(t.Context(), w, client.DryRunAll)
			if tc.want == "" && err != nil {
				t.Fatal(err)
			}
			if tc.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
