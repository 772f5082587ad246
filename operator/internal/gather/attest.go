package gather

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// validateAttest says what is wrong with what a Gate attests. That a Secret is not there
// yet is not an error.
func validateAttest(g *v1beta1.Gate, a v1beta1.Attest, at *field.Path) field.ErrorList {
	errs := validateAuthorities(a.Authorities, at)
	switch {
	case (a.Key.Secret == nil) == (a.Key.KMS == ""):
		errs = append(errs, field.Required(at.Child("key"), "exactly one of secret and kms: without a key nothing can be signed"))
	case a.Key.KMS != "":
		if err := trust.ValidateKMS(a.Key.KMS); err != nil {
			errs = append(errs, field.Invalid(at.Child("key", "kms"), a.Key.KMS, err.Error()))
		}
	}
	if g.Spec.RequirePromotionFrom == nil {
		return errs
	}
	// Whoever signs for the environment before this one could else say that anything ran here.
	before := g.Spec.RequirePromotionFrom
	for i, own := range a.Authorities {
		if k := own.Key; k != nil && slices.ContainsFunc(before.Authorities, func(b v1beta1.Authority) bool { return b.Key != nil && oneKey(*k, *b.Key) }) {
			errs = append(errs, field.Invalid(at.Child("authorities").Index(i).Child("key"), "(not shown)", fmt.Sprintf(
				"it signs for environment %s too, see spec.requirePromotionFrom: give each environment a key of its own", before.Environment)))
		}
	}
	for _, b := range before.Authorities {
		if b.Key != nil && a.Key.KMS != "" && strings.TrimSuffix(a.Key.KMS, "/") == strings.TrimSuffix(b.Key.KMS, "/") {
			errs = append(errs, field.Invalid(at.Child("key", "kms"), a.Key.KMS, fmt.Sprintf(
				"it signs for environment %s, see spec.requirePromotionFrom: give each environment a key of its own", before.Environment)))
		}
	}
	return errs
}

// oneKey says whether two keys are the same, as far as the Gate itself tells.
func oneKey(a, b v1beta1.PublicKey) bool {
	switch {
	case a.Secret != nil && b.Secret != nil:
		return *a.Secret == *b.Secret
	case a.KMS != "":
		return a.KMS == b.KMS
	}
	return signature.SameKey(a.Inline, b.Inline)
}
