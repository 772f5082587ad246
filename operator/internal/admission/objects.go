package admission

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/metrics"
)

// PathObjects is where pods and what brings pods are judged.
const PathObjects = "/validate-objects"

// Objects judges pods, their ephemeral containers, and pod controllers, by the Gates that
// name their kind. All fields are required.
type Objects struct {
	Judge   *gather.Judge
	Metrics *metrics.Set
}

// Handle implements admission.Handler.
func (h *Objects) Handle(ctx context.Context, req admission.Request) admission.Response {
	obj, err := object(req.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if req.Operation == admissionv1.Update {
		old, err := object(req.OldObject.Raw)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if reflect.DeepEqual(substance(old), substance(obj)) {
			// Controllers write status, labels and annotations all the time. What runs is in none
			// of them, and a registry that is down must not stop them.
			return admission.Allowed("nothing but metadata and status changes")
		}
	}
	start := time.Now()
	j := h.Judge.Object(ctx, obj, req.Namespace)
	if len(j.Verdicts) == 0 {
		return admission.Allowed("no Gate names this kind")
	}
	return answer(ctx, h.Metrics, start, j)
}

// substance is an object without metadata and status. It is more than spec: objects of
// other kinds may name images anywhere.
func substance(obj map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range obj {
		if key != "metadata" && key != "status" {
			out[key] = value
		}
	}
	return out
}

// object reads whole numbers as such, as everything else that reads objects does: rules of a
// schema over whole numbers take no others.
func object(raw []byte) (map[string]any, error) {
	var obj map[string]any
	if err := utiljson.Unmarshal(raw, &obj); err != nil || obj == nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	return obj, nil
}
