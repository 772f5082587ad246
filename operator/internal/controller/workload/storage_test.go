package workload

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// class makes a StorageClass of the test's own.
func class(t *testing.T, name string, expandable bool) {
	t.Helper()
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disks", AllowVolumeExpansion: &expandable}
	create(t, c)
	t.Cleanup(func() { _ = api.Delete(t.Context(), c) })
}

// bound plays the controller of StatefulSets and the provisioner for one replica.
func (b *bench) bound(class, name, size string) {
	b.t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace, Labels: render.ClaimLabels("db")},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "pv-" + name,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
	create(b.t, claim)
	b.resized(name, size)
}

// resized plays the resizer.
func (b *bench) resized(name, size string) {
	b.t.Helper()
	claim := b.claim(name)
	claim.Status = corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
	}
	if err := api.Status().Update(b.t.Context(), claim); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) claim(name string) *corev1.PersistentVolumeClaim {
	b.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	if err := api.Get(b.t.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, claim); err != nil {
		b.t.Fatal(err)
	}
	return claim
}

func sized(size string) func(*v1beta1.Workload) {
	return func(w *v1beta1.Workload) { w.Spec.Storage = &v1beta1.Storage{Size: size, MountPath: "/data"} }
}

func TestReconcile_GrowsTheVolumesWithTheSpec(t *testing.T) {
	b := newBench(t)
	class(t, "elastic-"+b.namespace, true)
	w := b.running("db", sized("1Gi"))
	b.bound("elastic-"+b.namespace, "data-db-0", "1Gi")
	b.bound("elastic-"+b.namespace, "data-db-1", "4Gi")
	b.bound("elastic-"+b.namespace, "data-other-0", "1Gi")
	b.update(w, sized("2Gi"))
	b.must(w)
	b.expect(w, v1beta1.PhaseProgressing, reasonVolumesGrow)
	if m := conditionOf(w, v1beta1.ConditionReady).Message; !strings.Contains(m, "data-db-0: 1Gi of 2Gi") || strings.Contains(m, "data-db-1") {
		t.Errorf("message: %s", m)
	}
	for name, want := range map[string]string{"data-db-0": "2Gi", "data-db-1": "4Gi", "data-other-0": "1Gi"} {
		if got := b.claim(name).Spec.Resources.Requests.Storage().String(); got != want {
			t.Errorf("%s asks for %s, want %s", name, got, want)
		}
	}
	if diff := cmp.Diff([]string{"patch PersistentVolumeClaim"}, only(b.taken(), "PersistentVolumeClaim")); diff != "" {
		t.Error(diff)
	}
	b.resized("data-db-0", "2Gi")
	b.must(w)
	b.healthy(w)
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)

	// A replica that comes later starts from the old template.
	b.bound("elastic-"+b.namespace, "data-db-2", "1Gi")
	b.restart()
	b.must(w)
	if got := b.claim("data-db-2").Spec.Resources.Requests.Storage().String(); got != "2Gi" {
		t.Errorf("a later volume asks for %s", got)
	}
	b.resized("data-db-2", "2Gi")
	b.must(w)
	b.taken()
	for range 3 {
		b.must(w)
	}
	if writes := b.taken(); len(writes) != 0 {
		t.Errorf("at rest: %v", writes)
	}
}

func only(writes []string, what string) []string {
	var out []string
	for _, w := range writes {
		if strings.Contains(w, what) {
			out = append(out, w)
		}
	}
	return out
}

func TestReconcile_SaysWhenAVolumeCannotGrow(t *testing.T) {
	b := newBench(t)
	class(t, "rigid-"+b.namespace, false)
	w := b.running("db", sized("1Gi"))
	b.bound("rigid-"+b.namespace, "data-db-0", "1Gi")
	b.update(w, sized("2Gi"))
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonChildRefused)
	if m := conditionOf(w, v1beta1.ConditionStalled).Message; !strings.Contains(m, fmt.Sprintf("grow PersistentVolumeClaim %s/data-db-0", b.namespace)) {
		t.Errorf("message: %s", m)
	}
}

func TestWorkload_DoesNotLetItsStorageShrinkOrMove(t *testing.T) {
	b := newBench(t)
	w := b.workload("db", sized("1024Mi"))
	for name, tc := range map[string]struct {
		change func(*v1beta1.Workload)
		want   string
	}{
		"smaller":          {sized("1Mi"), "storage.size cannot shrink"},
		"another class":    {func(w *v1beta1.Workload) { w.Spec.Storage.ClassName = "fast" }, "storage.className cannot change"},
		"the same, larger": {sized("1Gi"), ""},
		"larger":           {sized("1Ti"), ""},
	} {
		b.read(w)
		tc.change(w)
		err := api.Update(t.Context(), w, client.DryRunAll)
		if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What no child can follow is refused where it is written, with a way on.
func TestWorkload_RefusesWhatNoChildCanFollow(t *testing.T) {
	b := newBench(t)
	stored := func(w *v1beta1.Workload) {
		w.Spec.Storage = &v1beta1.Storage{Size: "1Gi", ClassName: "fast", MountPath: "/data"}
		w.Spec.Tenant = "shop"
	}
	for name, tc := range map[string]struct {
		before, change func(*v1beta1.Workload)
		want           string
	}{
		"a volume that shrinks":    {stored, func(w *v1beta1.Workload) { w.Spec.Storage.Size = "1023Mi" }, "keep the size, or copy the data to a new Workload"},
		"another class":            {stored, func(w *v1beta1.Workload) { w.Spec.Storage.ClassName = "slow" }, "create a new Workload and copy the data"},
		"no class any more":        {stored, func(w *v1beta1.Workload) { w.Spec.Storage.ClassName = "" }, "create a new Workload and copy the data"},
		"no storage any more":      {stored, func(w *v1beta1.Workload) { w.Spec.Storage = nil }, "create a new Workload"},
		"storage all of a sudden":  {func(*v1beta1.Workload) {}, stored, "create a new Workload"},
		"another tenant":           {stored, func(w *v1beta1.Workload) { w.Spec.Tenant = "bank" }, "create a new Workload for the other tenant"},
		"no tenant any more":       {stored, func(w *v1beta1.Workload) { w.Spec.Tenant = "" }, "create a new Workload for the other tenant"},
		"itself as its dependency": {stored, func(w *v1beta1.Workload) { w.Spec.DependsOn = []v1beta1.DependencyRef{{Name: w.Name}} }, "take it out"},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.workload("web", tc.before)
			t.Cleanup(func() {
				if err := api.Delete(context.Background(), w); err != nil {
					t.Error(err)
				}
			})
			tc.change(w)
			if err := api.Update(t.Context(), w); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
