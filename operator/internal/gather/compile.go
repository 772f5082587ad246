package gather

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
)

// compile reads in what a Gate refers to. What cannot be read is marked Unavailable in
// the Config, so that what does not need it can still be decided.
func compile(ctx context.Context, g *v1beta1.Gate, from Source) (gate.Config, error) {
	c := gate.Config{
		Name:          g.Name,
		Environment:   g.Spec.Environment,
		Mode:          gate.Mode(g.Spec.Mode),
		DenyUnmatched: g.Spec.UnmatchedImages != v1beta1.UnmatchedImagesAllow,
		Parameters:    map[string]any{},
	}
	for name, raw := range g.Spec.Parameters {
		var v any
		if err := json.Unmarshal(raw.Raw, &v); err != nil {
			return c, fmt.Errorf("gate %s: spec.parameters.%s: %w", g.Name, name, err)
		}
		c.Parameters[name] = v
	}
	for _, p := range g.Spec.Policies {
		c.Policies = append(c.Policies, policySet(ctx, p, from))
	}
	for _, rule := range g.Spec.Images {
		c.Images = append(c.Images, imageRule(ctx, rule, from))
	}
	return c, nil
}

func policySet(ctx context.Context, p v1beta1.PolicySource, from Source) gate.PolicySet {
	if p.Builtin != "" {
		set, ok := policy.Builtin(p.Builtin)
		if !ok {
			return gate.PolicySet{Name: p.Builtin, Unavailable: unknownBuiltin(p.Builtin)}
		}
		return set
	}
	if p.ConfigMap == nil {
		return gate.PolicySet{Name: "policies", Unavailable: "an entry of spec.policies has neither builtin nor configMap"}
	}
	name := p.ConfigMap.Namespace + "/" + p.ConfigMap.Name
	data, err := from.ConfigMap(ctx, p.ConfigMap.Namespace, p.ConfigMap.Name)
	if err != nil {
		return gate.PolicySet{Name: name, Unavailable: fmt.Sprintf("ConfigMap %s with policies: %v", name, same(err))}
	}
	set := gate.PolicySet{Name: name, Modules: map[string]string{}}
	for file, module := range data {
		if strings.HasSuffix(file, ".rego") && !strings.HasSuffix(file, "_test.rego") {
			set.Modules[file] = module
		}
	}
	if len(set.Modules) == 0 {
		set.Unavailable = fmt.Sprintf("ConfigMap %s has no key that ends in .rego", name)
	}
	return set
}

func unknownBuiltin(name string) string {
	return fmt.Sprintf("there is no builtin policy group %q; there are %s", name, strings.Join(policy.BuiltinGroups(), ", "))
}

func imageRule(ctx context.Context, rule v1beta1.ImageRule, from Source) gate.ImageRule {
	out := gate.ImageRule{Match: rule.Match, Require: requirement(rule.Require), RequireDigest: rule.RequireDigest}
	for i, a := range rule.Authorities {
		out.Authorities = append(out.Authorities, authority(ctx, a, i, from))
	}
	return out
}

func requirement(r *intstr.IntOrString) gate.Requirement {
	switch {
	case r == nil:
		return gate.Requirement{Count: 1}
	case r.Type == intstr.Int:
		return gate.Requirement{Count: int(r.IntVal)}
	case r.StrVal == "none":
		return gate.Requirement{None: true}
	case r.StrVal == "any":
		return gate.Requirement{Count: 1}
	default:
		// "all", and what the schema lets nobody write: that must not ask for less.
		return gate.Requirement{All: true}
	}
}

func authorityName(a v1beta1.Authority, i int) string {
	if a.Name != "" {
		return a.Name
	}
	return "authority-" + strconv.Itoa(i)
}

func authority(ctx context.Context, a v1beta1.Authority, i int, from Source) gate.Authority {
	out := gate.Authority{Name: authorityName(a, i), PublicKeyPEM: a.Key.Inline}
	ref := a.Key.Secret
	if ref == nil {
		return out
	}
	name := ref.Namespace + "/" + ref.Name
	data, err := from.Secret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		out.Unavailable = fmt.Sprintf("Secret %s with the key of authority %s: %v", name, out.Name, same(err))
		return out
	}
	key, ok := data[ref.Key]
	if !ok {
		out.Unavailable = fmt.Sprintf("Secret %s has no key %q for authority %s", name, ref.Key, out.Name)
		return out
	}
	if err := signature.ValidateKey(string(key)); err != nil {
		out.Unavailable = fmt.Sprintf("Secret %s, key %q, for authority %s: %v", name, ref.Key, out.Name, err)
		return out
	}
	out.PublicKeyPEM = string(key)
	return out
}

// ValidateGate says everything that is wrong with a Gate beyond its schema, with field
// paths. It reads nothing: a Secret that comes later is not an error.
func ValidateGate(g *v1beta1.Gate) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if _, err := matches(g, nil, nil); err != nil {
		errs = append(errs, field.Invalid(spec.Child("match"), g.Spec.Match, err.Error()))
	}
	for i, p := range g.Spec.Policies {
		if p.Builtin == "" {
			continue
		}
		if _, ok := policy.Builtin(p.Builtin); !ok {
			errs = append(errs, field.NotSupported(spec.Child("policies").Index(i).Child("builtin"), p.Builtin, policy.BuiltinGroups()))
		}
	}
	for i, rule := range g.Spec.Images {
		errs = append(errs, validateRule(rule, spec.Child("images").Index(i))...)
	}
	return errs
}

func validateRule(rule v1beta1.ImageRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if err := gate.ValidateMatch(rule.Match); err != nil {
		errs = append(errs, field.Invalid(at.Child("match"), rule.Match, err.Error()))
	}
	seen := map[string]bool{}
	for i, a := range rule.Authorities {
		path := at.Child("authorities").Index(i)
		name := authorityName(a, i)
		if seen[name] {
			errs = append(errs, field.Duplicate(path.Child("name"), name))
		}
		seen[name] = true
		if a.Key.Inline == "" {
			continue
		}
		if err := signature.ValidateKey(a.Key.Inline); err != nil {
			errs = append(errs, field.Invalid(path.Child("key", "inline"), "(not shown)", err.Error()))
		}
	}
	return errs
}
