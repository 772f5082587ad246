package gather

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/trust"
	"github.com/sluice-dev/sluice/operator/internal/window"
)

// ValidateGate says everything that is wrong with a Gate beyond its schema, with field
// paths. It reads nothing: a Secret that comes later is not an error.
func ValidateGate(g *v1beta1.Gate) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if _, err := matches(g, nil, nil); err != nil {
		errs = append(errs, field.Invalid(spec.Child("match"), g.Spec.Match, err.Error()))
	}
	for i, p := range g.Spec.Policies {
		if p.OCI != nil {
			errs = append(errs, validateBundle(*p.OCI, spec.Child("policies").Index(i).Child("oci"))...)
		}
		if p.Builtin == "" {
			continue
		}
		if _, ok := policy.Builtin(p.Builtin); !ok {
			errs = append(errs, field.NotSupported(spec.Child("policies").Index(i).Child("builtin"), p.Builtin, policy.BuiltinGroups()))
		}
	}
	errs = append(errs, validateParameters(g, spec.Child("parameters"))...)
	for i, p := range g.Spec.ImagePaths {
		for k, path := range p.Paths {
			if err := images.ValidatePath(path); err != nil {
				errs = append(errs, field.Invalid(spec.Child("imagePaths").Index(i).Child("paths").Index(k), path, err.Error()))
			}
		}
	}
	for i, rule := range g.Spec.Images {
		errs = append(errs, validateRule(rule, spec.Child("images").Index(i))...)
	}
	if p := g.Spec.RequirePromotionFrom; p != nil {
		errs = append(errs, validatePromotion(g, *p, spec.Child("requirePromotionFrom"))...)
	}
	if a := g.Spec.Attest; a != nil {
		errs = append(errs, validateAttest(g, *a, spec.Child("attest"))...)
	}
	_, wrong := window.Compile(g.Spec.PromotionWindows, spec.Child("promotionWindows"))
	return append(errs, wrong...)
}

func validateBundle(p v1beta1.PolicyBundle, at *field.Path) field.ErrorList {
	errs := validateAuthorities(p.Authorities, at)
	if _, err := bundleRef(p.Ref); err != nil {
		errs = append(errs, field.Invalid(at.Child("ref"), p.Ref, err.Error()))
	}
	if len(p.Authorities) == 0 {
		errs = append(errs, field.Required(at.Child("authorities"), "without a key or identity anyone's policies would do"))
	}
	return errs
}

func validatePromotion(g *v1beta1.Gate, p v1beta1.RequirePromotionFrom, at *field.Path) field.ErrorList {
	errs := validateAuthorities(p.Authorities, at)
	if p.Environment == g.Spec.Environment {
		errs = append(errs, field.Invalid(at.Child("environment"), p.Environment, "it is the environment that this Gate guards: name the one before it"))
	}
	if len(p.Authorities) == 0 {
		errs = append(errs, field.Required(at.Child("authorities"), "without a key or identity nobody's evidence would do"))
	}
	return errs
}

// validateParameters holds the parameters of builtin groups against their schemas.
func validateParameters(g *v1beta1.Gate, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	values := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(g.Spec.Parameters)) {
		var value any
		if err := json.Unmarshal(g.Spec.Parameters[name].Raw, &value); err != nil {
			errs = append(errs, field.Invalid(at.Child(name), "(not shown)", err.Error()))
			continue
		}
		values[name] = value
	}
	for _, p := range checkParameters(g, values) {
		errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: at.Child(p.Path).String(), BadValue: field.OmitValueType{}, Detail: p.Message})
	}
	return errs
}

func checkParameters(g *v1beta1.Gate, values map[string]any) []policy.Problem {
	var groups []string
	others := false
	for _, p := range g.Spec.Policies {
		if p.Builtin == "" {
			others = true
			continue
		}
		groups = append(groups, p.Builtin)
	}
	return policy.CheckParameters(groups, others, values)
}

func validateRule(rule v1beta1.ImageRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if err := gate.ValidateMatch(rule.Match); err != nil {
		errs = append(errs, field.Invalid(at.Child("match"), rule.Match, err.Error()))
	}
	errs = append(errs, validateAuthorities(rule.Authorities, at)...)
	return append(errs, validateAttestations(rule, at)...)
}

func validateAuthorities(authorities []v1beta1.Authority, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, a := range authorities {
		path := at.Child("authorities").Index(i)
		name := authorityName(a, i)
		if seen[name] {
			errs = append(errs, field.Duplicate(path.Child("name"), name))
		}
		seen[name] = true
		errs = append(errs, validateAuthority(a, path)...)
		if other := sameKey(authorities[:i], a); other >= 0 {
			errs = append(errs, field.Invalid(path.Child("key", "inline"), "(not shown)", fmt.Sprintf(
				"authority %s has the same key as authority %s, and one key counts as one signer: give each its own, or leave one out",
				name, authorityName(authorities[other], other))))
		}
	}
	return errs
}

// sameKey is the place of the first authority with the same key, both in the Gate; -1 if
// there is none. Keys from elsewhere are compared when they are used.
func sameKey(others []v1beta1.Authority, a v1beta1.Authority) int {
	return slices.IndexFunc(others, func(other v1beta1.Authority) bool {
		return a.Key != nil && other.Key != nil && signature.SameKey(a.Key.Inline, other.Key.Inline)
	})
}

// validateAuthority looks at what stands in the Gate itself; what it refers to may come
// later.
func validateAuthority(a v1beta1.Authority, at *field.Path) field.ErrorList {
	switch {
	case a.Key != nil && a.Key.Inline != "":
		if err := signature.ValidateKey(a.Key.Inline); err != nil {
			return field.ErrorList{field.Invalid(at.Child("key", "inline"), "(not shown)", err.Error())}
		}
	case a.Key != nil && a.Key.KMS != "":
		if err := trust.ValidateKMS(a.Key.KMS); err != nil {
			return field.ErrorList{field.Invalid(at.Child("key", "kms"), a.Key.KMS, err.Error())}
		}
	case a.Keyless != nil:
		return validateKeyless(*a.Keyless, at.Child("keyless"))
	case a.Key == nil:
		return field.ErrorList{field.Required(at, "a key or a keyless identity")}
	}
	return nil
}

func validateKeyless(k v1beta1.Keyless, at *field.Path) field.ErrorList {
	identity := gate.Keyless{Issuer: k.Issuer, IssuerRegExp: k.IssuerRegExp, Subject: k.Subject, SubjectRegExp: k.SubjectRegExp}
	check := signature.ValidateIdentity
	if k.TrustedRoot != nil && k.TrustedRoot.Inline != "" {
		identity.TrustedRoot = []byte(k.TrustedRoot.Inline)
		check = signature.ValidateKeyless
	}
	if err := check(identity); err != nil {
		return field.ErrorList{field.Invalid(at, "(see the message)", err.Error())}
	}
	return nil
}

func validateAttestations(rule v1beta1.ImageRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	shape := gate.ImageRule{}
	for i, a := range rule.Authorities {
		shape.Authorities = append(shape.Authorities, gate.Authority{Name: authorityName(a, i)})
	}
	for i, a := range rule.Attestations {
		if err := signature.ValidateAttestation(shape, attestationRule(a)); err != nil {
			errs = append(errs, field.Invalid(at.Child("attestations").Index(i), a.PredicateType, err.Error()))
		}
	}
	return errs
}
