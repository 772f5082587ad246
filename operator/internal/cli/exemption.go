package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// astray are the Exemptions that are for none of the Gates that were read, each with those
// that it names. One that names several Gates may be for clusters that are not checked.
func (r *reading) astray() []string {
	gates, out := map[string]bool{}, map[string]bool{}
	for _, w := range r.worlds {
		for _, g := range w.files.GateList {
			gates[g.Name] = true
		}
	}
	for _, w := range r.worlds {
		for _, e := range w.files.ExemptionList {
			if !slices.ContainsFunc(e.Spec.Gates, func(name string) bool { return gates[name] }) {
				out[fmt.Sprintf("%s (%s)", e.Name, strings.Join(e.Spec.Gates, ", "))] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}
