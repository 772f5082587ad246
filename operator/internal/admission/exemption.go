package admission

import (
	"context"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
)

// PathExemption is where Exemptions are validated.
const PathExemption = "/validate-exemption"

// Exemptions refuses Exemptions that are too broad, or over before they begin, and warns of those
// without effect. All fields are required.
type Exemptions struct {
	Decoder admission.Decoder
	// OperatorNamespace is where nothing can be exempted.
	OperatorNamespace string
	// Now is the clock.
	Now func() time.Time
}

// Handle implements admission.Handler. An update may let an Exemption expire at once, which
// ends it, and one that has expired may still be labelled and deleted.
func (h *Exemptions) Handle(_ context.Context, req admission.Request) admission.Response {
	e := &v1beta1.Exemption{}
	if err := decode(h.Decoder, req.Object, e, v1beta1.ExemptionKind); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if leaves(req, e) {
		return leaving()
	}
	errs := gather.ValidateExemption(e, h.OperatorNamespace)
	if now := h.Now(); req.Operation == admissionv1.Create && gather.Expired(e, now) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "expires"), e.Spec.Expires.UTC().Format(time.RFC3339),
			fmt.Sprintf("is past (it is %s now): an exemption that has expired has no effect; take it out of Git, or give it a later end", now.UTC().Format(time.RFC3339))))
	}
	if len(errs) == 0 {
		return admission.Allowed("").WithWarnings(gather.DoubtExemption(e)...)
	}
	return invalid(e, errs)
}
