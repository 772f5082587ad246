// Package admission is the gate at the API server's door: validating webhooks for
// Workloads, their scale, Gates and Exemptions, and the certificates they serve with.
package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/conversion"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/metrics"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

// Paths that the webhooks are served under.
const (
	PathWorkload = "/validate-workload"
	PathGate     = "/validate-gate"
)

// auditVerdicts is the audit annotation that carries the canonical verdicts.
const auditVerdicts = "verdicts"

// Workloads judges Workloads and their scale. All fields are required.
type Workloads struct {
	Judge     *gather.Judge
	Decoder   admission.Decoder
	Converter *conversion.Converter
	// Cache holds the Workloads that one may depend on.
	Cache client.Reader
	// Live reads the Workload that a scale request is about: the cache may lag behind it.
	Live    client.Reader
	Metrics *metrics.Set
}

// Register serves the handlers, and the conversion, on a webhook server.
func Register(server webhook.Server, workloads *Workloads, objects *Objects, gates *Gates, exemptions *Exemptions) error {
	convert, err := newConversion(workloads.Converter)
	if err != nil {
		return fmt.Errorf("serve the conversion: %w", err)
	}
	server.Register(PathConvert, convert)
	server.Register(PathWorkload, &webhook.Admission{Handler: workloads})
	server.Register(PathObjects, &webhook.Admission{Handler: objects})
	server.Register(PathGate, &webhook.Admission{Handler: gates})
	server.Register(PathExemption, &webhook.Admission{Handler: exemptions})
	return nil
}

// Handle implements admission.Handler. There is no short cut for updates that seem
// harmless: an image is judged also when it changes together with a scale-down.
func (h *Workloads) Handle(ctx context.Context, req admission.Request) admission.Response {
	w, response := h.subject(ctx, req)
	if w == nil {
		return response
	}
	start := time.Now()
	j := h.Judge.Workload(ctx, w, nil)
	response = h.hold(ctx, req, w, j.Children, answer(ctx, h.Metrics, start, j))
	if !response.Allowed {
		return response
	}
	refusal, err := h.orderly(ctx, req, w)
	if err != nil {
		return admission.Errored(http.StatusServiceUnavailable, err)
	}
	if refusal != nil {
		// The verdict is logged as it was, and so are its warnings.
		refusal.AuditAnnotations, refusal.Warnings = response.AuditAnnotations, response.Warnings
		return *refusal
	}
	return response
}

// answer counts a judgement, logs a refusal and makes the response.
func answer(ctx context.Context, counted *metrics.Set, start time.Time, j gather.Judgement) admission.Response {
	worst := gate.Worst(j.Verdicts)
	counted.DecisionSeconds.WithLabelValues("admission").Observe(time.Since(start).Seconds())
	counted.Verdicts.WithLabelValues("admission", string(worst.Outcome)).Inc()
	if j.Blocked() {
		// The request's own object stands in the context's keys: a key twice is a line that is lost.
		logf.FromContext(ctx).Info("Refused an object", "judged", worst.Object.String(), "gate", worst.Gate, "verdict", string(worst.Outcome), "violations", len(worst.Violations))
	}
	return respond(j.Verdicts)
}

// subject is the Workload to judge, or the response when there is none.
func (h *Workloads) subject(ctx context.Context, req admission.Request) (*v1beta1.Workload, admission.Response) {
	if req.SubResource == "scale" {
		return h.scaled(ctx, req)
	}
	w := &v1beta1.Workload{}
	if err := decode(h.Decoder, req.Object, w, v1beta1.WorkloadKind); err != nil {
		return nil, admission.Errored(http.StatusBadRequest, err)
	}
	if w.Spec.Replicas == nil {
		return nil, admission.Errored(http.StatusBadRequest, errors.New("spec.replicas is not set: the API server sets its default before it asks"))
	}
	// The API server's word counts, and not what stands in the object.
	w.Namespace = req.Namespace
	if req.Operation == admissionv1.Update && !w.DeletionTimestamp.IsZero() {
		old := &v1beta1.Workload{}
		if err := decode(h.Decoder, req.OldObject, old, v1beta1.WorkloadKind); err != nil {
			return nil, admission.Errored(http.StatusBadRequest, err)
		}
		if equality.Semantic.DeepEqual(old.Spec, w.Spec) {
			// A Workload that is denied today still has to be able to go away: its finalizer is
			// taken off by an update.
			return nil, leaving()
		}
	}
	if errs := h.invalid(ctx, w, req); len(errs) > 0 {
		return nil, invalid(w, errs)
	}
	return w, admission.Response{}
}

// invalid is what the API server does not see to: it validates what was written in the
// version that it was written in, and stores what becomes of it.
func (h *Workloads) invalid(ctx context.Context, w *v1beta1.Workload, req admission.Request) field.ErrorList {
	if err := conversion.Leftover(w.Annotations); err != nil {
		return field.ErrorList{err}
	}
	if req.RequestKind == nil || req.RequestKind.Version == v1beta1.GroupVersion.Version {
		return nil
	}
	obj, err := object(req.Object.Raw)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	var old map[string]any
	if req.Operation == admissionv1.Update {
		if old, err = object(req.OldObject.Raw); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
	}
	return h.Converter.Written(ctx, obj, old)
}

// invalid is the response for what is against a schema; it is no verdict.
func invalid(o client.Object, errs field.ErrorList) admission.Response {
	kind := o.GetObjectKind().GroupVersionKind().GroupKind()
	status := apierrors.NewInvalid(kind, o.GetName(), errs).Status()
	response := admission.Denied("")
	response.Result = &status
	return response
}

func (h *Workloads) scaled(ctx context.Context, req admission.Request) (*v1beta1.Workload, admission.Response) {
	scale := &autoscalingv1.Scale{}
	if err := decode(h.Decoder, req.Object, scale, "Scale"); err != nil {
		return nil, admission.Errored(http.StatusBadRequest, err)
	}
	w := &v1beta1.Workload{}
	if err := h.Live.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, w); err != nil {
		code := http.StatusServiceUnavailable
		if apierrors.IsNotFound(err) {
			code = http.StatusNotFound
		}
		return nil, admission.Errored(int32(code), fmt.Errorf("get Workload %s/%s to judge its scale: %w", req.Namespace, req.Name, err))
	}
	w.Spec.Replicas = &scale.Spec.Replicas
	return w, admission.Response{}
}

// decode reads an object of one kind. The decoder itself leaves into as it is when the
// object is of another kind that it knows, and an empty object may pass.
func decode(d admission.Decoder, raw runtime.RawExtension, into runtime.Object, kind string) error {
	var stated metav1.TypeMeta
	if err := json.Unmarshal(raw.Raw, &stated); err != nil {
		return fmt.Errorf("decode %s: %w", kind, err)
	}
	if stated.Kind != kind {
		return fmt.Errorf("decode %s: the object is a %q", kind, stated.Kind)
	}
	if err := d.DecodeRaw(raw, into); err != nil {
		return fmt.Errorf("decode %s: %w", kind, err)
	}
	if got := into.GetObjectKind().GroupVersionKind(); got != stated.GroupVersionKind() {
		return fmt.Errorf("decode %s: %s is not served here", kind, stated.GroupVersionKind())
	}
	return nil
}

func respond(verdicts []gate.Verdict) admission.Response {
	response := admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed:          true,
		Warnings:         report.Warnings(verdicts),
		AuditAnnotations: map[string]string{auditVerdicts: string(report.JSON(verdicts))},
	}}
	worst := gate.Worst(verdicts)
	if !worst.Outcome.Blocks() {
		return response
	}
	response.Allowed = false
	response.Result = &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: report.Denial(verdicts)}
	if worst.Outcome == gate.OutcomeError {
		response.Result.Code, response.Result.Reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	}
	return response
}
