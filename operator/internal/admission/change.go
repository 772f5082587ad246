package admission

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// The rights of admission, apart from those of the reads that it shares with the
// reconciler. controller-gen passes over markers in the comment of a function.
//
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get

// impossible says why the children that exist cannot follow an update of their Workload,
// one sentence each; none when they can. It is not part of the verdict: a pull request
// knows no cluster, and the gate allows the same spec for a new Workload.
func (h *Workloads) impossible(ctx context.Context, old, w *v1beta1.Workload, children []map[string]any) ([]string, error) {
	if equality.Semantic.DeepEqual(old.Spec, w.Spec) {
		return nil, nil
	}
	var out []string
	for _, content := range children {
		desired := &unstructured.Unstructured{Object: content}
		if kind := desired.GetKind(); kind != "StatefulSet" && kind != "Deployment" {
			continue
		}
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(desired.GroupVersionKind())
		err := h.Live.Get(ctx, client.ObjectKeyFromObject(desired), live)
		if apierrors.IsNotFound(err) || (err == nil && !metav1.IsControlledBy(live, w)) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get %s %s/%s: %w", desired.GetKind(), w.Namespace, desired.GetName(), err)
		}
		reasons, err := h.unfollowed(ctx, w, desired.DeepCopy(), live)
		if err != nil {
			return nil, err
		}
		out = append(out, reasons...)
	}
	return out, nil
}

func (h *Workloads) unfollowed(ctx context.Context, w *v1beta1.Workload, desired, live *unstructured.Unstructured) ([]string, error) {
	sizes, err := delta.ClaimSizes(desired)
	if err != nil {
		return nil, err
	}
	delta.KeepClaimSizes(desired, live)
	changes, err := delta.Compare(desired, live)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, c := range delta.Fixed(desired.GetKind(), changes) {
		out = append(out, fmt.Sprintf("%s/%s: %s cannot change once it exists; take back what changes it (see spec.storage and spec.patches), or create a new Workload",
			desired.GetKind(), desired.GetName(), c.Path))
	}
	stuck, err := h.cannotGrow(ctx, w, live, sizes)
	return append(out, stuck...), err
}

// cannotGrow names the volume claims that are smaller than they are to be and whose class
// does not let them grow.
func (h *Workloads) cannotGrow(ctx context.Context, w *v1beta1.Workload, live *unstructured.Unstructured, sizes map[string]resource.Quantity) ([]string, error) {
	before, err := delta.ClaimSizes(live)
	if err != nil || !larger(sizes, before) {
		return nil, err
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := h.Live.List(ctx, claims, client.InNamespace(w.Namespace), client.MatchingLabels(render.ClaimLabels(w.Name))); err != nil {
		return nil, fmt.Errorf("list volume claims in %s: %w", w.Namespace, err)
	}
	var out []string
	allowed := map[string]string{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		size, ok := delta.ClaimSize(claim.Name, live.GetName(), sizes)
		if !ok || claim.Spec.Resources.Requests.Storage().Cmp(size) >= 0 {
			continue
		}
		class := ""
		if claim.Spec.StorageClassName != nil {
			class = *claim.Spec.StorageClassName
		}
		why, known := allowed[class]
		if !known {
			if why, err = h.whyFixed(ctx, class); err != nil {
				return nil, err
			}
			allowed[class] = why
		}
		if why != "" {
			out = append(out, fmt.Sprintf("spec.storage.size: volume claim %s has %s and cannot grow to %s: %s; keep the size, or copy the data to a new Workload",
				claim.Name, claim.Spec.Resources.Requests.Storage(), size.String(), why))
		}
	}
	return out, nil
}

func larger(sizes, before map[string]resource.Quantity) bool {
	for name, size := range sizes {
		if was, ok := before[name]; ok && was.Cmp(size) < 0 {
			return true
		}
	}
	return false
}

// whyFixed says why volumes of a class cannot grow; empty when they can.
func (h *Workloads) whyFixed(ctx context.Context, name string) (string, error) {
	if name == "" {
		return "it has no StorageClass", nil
	}
	class := &storagev1.StorageClass{}
	err := h.Live.Get(ctx, client.ObjectKey{Name: name}, class)
	if apierrors.IsNotFound(err) {
		return "its StorageClass " + name + " does not exist any more", nil
	}
	if err != nil {
		return "", fmt.Errorf("get StorageClass %s: %w", name, err)
	}
	if class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
		return "its StorageClass " + name + " does not set allowVolumeExpansion", nil
	}
	return "", nil
}

// hold adds to an allowing response what stands against the update besides the verdict.
func (h *Workloads) hold(ctx context.Context, req admission.Request, w *v1beta1.Workload, children []map[string]any, allowing admission.Response) admission.Response {
	if req.Operation != admissionv1.Update || req.SubResource != "" || !allowing.Allowed {
		return allowing
	}
	old := &v1beta1.Workload{}
	if err := decode(h.Decoder, req.OldObject, old, v1beta1.WorkloadKind); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	reasons, err := h.impossible(ctx, old, w, children)
	if err != nil {
		return admission.Errored(http.StatusServiceUnavailable, fmt.Errorf("could not find out whether the children can follow: %w", err))
	}
	if len(reasons) == 0 {
		return allowing
	}
	allowing.Allowed = false
	allowing.Result = &metav1.Status{
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("Workload %s/%s: %s", w.Namespace, w.Name, strings.Join(reasons, "\n")),
	}
	return allowing
}
