package admission

import (
	"context"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
)

// Gates refuses Gates that could not do what they say. All fields are required.
type Gates struct {
	Decoder admission.Decoder
	// OperatorNamespace is where Secrets and ConfigMaps of Gates have to be.
	OperatorNamespace string
}

// Handle implements admission.Handler.
func (h *Gates) Handle(_ context.Context, req admission.Request) admission.Response {
	g := &v1beta1.Gate{}
	if err := decode(h.Decoder, req.Object, g, v1beta1.GateKind); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if leaves(req, g) {
		return leaving()
	}
	errs := append(gather.ValidateGate(g), h.references(g)...)
	if len(errs) == 0 {
		return admission.Allowed("")
	}
	return invalid(g, errs)
}

// leaves says whether an update is of an object on its way out, and leaves what it says
// alone. Such a one passes whatever is wrong with it, as after an upgrade that knows a policy
// no more: finalizers, as Argo CD and foreground deletion set them, are taken off by updates.
func leaves(req admission.Request, o client.Object) bool {
	if req.Operation != admissionv1.Update || o.GetDeletionTimestamp().IsZero() {
		return false
	}
	now, err := object(req.Object.Raw)
	if err != nil {
		return false
	}
	before, err := object(req.OldObject.Raw)
	return err == nil && reflect.DeepEqual(substance(before), substance(now))
}

func leaving() admission.Response {
	return admission.Allowed("the object is being deleted and its spec does not change")
}

// references refuses Secrets and ConfigMaps elsewhere than in the operator's namespace:
// whoever owns the other namespace could change the keys and the rules.
func (h *Gates) references(g *v1beta1.Gate) field.ErrorList {
	var errs field.ErrorList
	check := func(at *field.Path, namespace string) {
		if namespace != h.OperatorNamespace {
			errs = append(errs, field.Invalid(at.Child("namespace"), namespace, "has to be the operator's namespace "+h.OperatorNamespace))
		}
	}
	authorities := func(at *field.Path, all []v1beta1.Authority) {
		for i, a := range all {
			at := at.Child("authorities").Index(i)
			if a.Key != nil && a.Key.Secret != nil {
				check(at.Child("key", "secret"), a.Key.Secret.Namespace)
			}
			if a.Keyless == nil || a.Keyless.TrustedRoot == nil {
				continue
			}
			if r := a.Keyless.TrustedRoot; r.Secret != nil {
				check(at.Child("keyless", "trustedRoot", "secret"), r.Secret.Namespace)
			} else if r.ConfigMap != nil {
				check(at.Child("keyless", "trustedRoot", "configMap"), r.ConfigMap.Namespace)
			}
		}
	}
	for i, p := range g.Spec.Policies {
		at := field.NewPath("spec", "policies").Index(i)
		if p.ConfigMap != nil {
			check(at.Child("configMap"), p.ConfigMap.Namespace)
		}
		if p.OCI == nil {
			continue
		}
		if p.OCI.RegistrySecret != nil {
			check(at.Child("oci", "registrySecret"), p.OCI.RegistrySecret.Namespace)
		}
		authorities(at.Child("oci"), p.OCI.Authorities)
	}
	for i, rule := range g.Spec.Images {
		authorities(field.NewPath("spec", "images").Index(i), rule.Authorities)
	}
	if p := g.Spec.RequirePromotionFrom; p != nil {
		authorities(field.NewPath("spec", "requirePromotionFrom"), p.Authorities)
	}
	if a := g.Spec.Attest; a != nil {
		at := field.NewPath("spec", "attest")
		if a.Key.Secret != nil {
			check(at.Child("key", "secret"), a.Key.Secret.Namespace)
		}
		if a.RegistrySecret != nil {
			check(at.Child("registrySecret"), a.RegistrySecret.Namespace)
		}
		authorities(at, a.Authorities)
	}
	return errs
}
