package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/graph"
)

// orderly refuses a Workload whose dependencies close a cycle. It is no part of the
// verdict, which holds nothing of what else is in a cluster. Only a write that changes the
// dependencies is asked about: a cycle that arose all the same, by two writes at once,
// must not stand in the way of labels, finalizers and the edit of another field.
func (h *Workloads) orderly(ctx context.Context, req admission.Request, w *v1beta1.Workload) (*admission.Response, error) {
	if req.SubResource != "" || len(w.Spec.DependsOn) == 0 {
		return nil, nil
	}
	if req.Operation == admissionv1.Update {
		old := &v1beta1.Workload{}
		if err := decode(h.Decoder, req.OldObject, old, v1beta1.WorkloadKind); err != nil {
			response := admission.Errored(http.StatusBadRequest, err)
			return &response, nil
		}
		if equality.Semantic.DeepEqual(old.Spec.DependsOn, w.Spec.DependsOn) {
			return nil, nil
		}
	}
	_, reached, err := gather.Dependencies(ctx, w, h.Cache)
	if errors.Is(err, graph.ErrTooLarge) {
		response := invalid(w, field.ErrorList{field.Invalid(field.NewPath("spec", "dependsOn"), len(w.Spec.DependsOn), err.Error())})
		return &response, nil
	}
	if err != nil {
		return nil, fmt.Errorf("spec.dependsOn: look for a cycle: %w", err)
	}
	if cycle := gather.Cyclic(w, reached); cycle != nil {
		response := invalid(w, field.ErrorList{cycle})
		return &response, nil
	}
	return nil, nil
}
