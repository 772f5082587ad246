package cli

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/schema"
)

// operatorNamespace is where the manifests install the operator; nothing in it can be
// exempted.
const operatorNamespace = "sluice-system"

// addExemption takes an Exemption as the API server would. One that has expired has no
// effect, and is no mistake: Git keeps it until someone deletes it.
func (in *input) addExemption(ctx context.Context, schemas *schema.Set, o overlay.Object) error {
	content, errs := schemas.Admit(ctx, o.Object, o.GroupVersionKind())
	e := v1beta1.Exemption{}
	if len(errs) == 0 {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &e); err != nil {
			return usage("%s: Exemption %s: %w", o.File, o.GetName(), err)
		}
		errs = gather.ValidateExemption(&e, operatorNamespace)
	}
	if len(errs) > 0 {
		return refused(fmt.Sprintf("%s: Exemption %s cannot be used:", o.File, o.GetName()), errs)
	}
	for _, doubt := range gather.DoubtExemption(&e) {
		say(in.told, "sluice: ", fmt.Sprintf("%s: Exemption %s: %s", o.File, e.Name, doubt))
	}
	if gather.Expired(&e, in.files.Now()) {
		say(in.told, "sluice: ", fmt.Sprintf("%s: Exemption %s expired at %s and has no effect: delete it", o.File, e.Name, e.Spec.Expires.UTC().Format(time.RFC3339)))
	}
	in.files.ExemptionList = append(in.files.ExemptionList, e)
	return nil
}
