package gather

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
)

// compile reads in what a Gate refers to in the cluster: of policies in a registry it leaves
// the place empty, see bundles.read. What cannot be read is marked Unavailable in
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
	// Admission refuses these; a Gate that was never asked about must not be without the
	// rules that they were meant for.
	for _, p := range checkParameters(g, c.Parameters) {
		c.Policies = append(c.Policies, gate.PolicySet{
			Name: "parameters", Unavailable: fmt.Sprintf("spec.parameters.%s of the Gate: %s", p.Path, p.Message),
		})
	}
	// What else was found wrong stands behind them, so that each is at its place.
	wrong := c.Policies
	c.Policies = nil
	for _, p := range g.Spec.Policies {
		c.Policies = append(c.Policies, policySet(ctx, p, from))
	}
	c.Policies = append(c.Policies, wrong...)
	for _, rule := range g.Spec.Images {
		c.Images = append(c.Images, imageRule(ctx, rule, from))
	}
	if g.Spec.RequirePromotionFrom != nil {
		c.Promotion = promotionRule(ctx, g, from)
	}
	return c, nil
}

// Promotion is the part of a Gate that demands evidence, with its keys read and fetched, and
// over every image; false where it demands none.
func Promotion(ctx context.Context, g *v1beta1.Gate, from Source, keys Keys) (gate.Config, bool) {
	c := gate.Config{Name: g.Name, Environment: g.Spec.Environment, Mode: gate.Enforce}
	if g.Spec.RequirePromotionFrom == nil {
		return c, false
	}
	c.Promotion = promotionRule(ctx, g, from)
	var all sync.WaitGroup
	fetchEach(ctx, keys, c.Promotion.Authorities, &all)
	fetchEach(ctx, keys, c.Promotion.Own, &all)
	all.Wait()
	return c, true
}

func promotionRule(ctx context.Context, g *v1beta1.Gate, from Source) *gate.Promotion {
	p := g.Spec.RequirePromotionFrom
	out := &gate.Promotion{Environment: p.Environment, PolicyDigests: p.PolicyDigests}
	if p.Within != nil {
		// Of no time at all nothing is left, whatever the schema lets somebody write.
		out.Within = max(int64(p.Within.Duration/time.Second), 1)
	}
	for i, a := range p.Authorities {
		out.Authorities = append(out.Authorities, authority(ctx, a, i, from))
	}
	if g.Spec.Attest != nil {
		for i, a := range g.Spec.Attest.Authorities {
			out.Own = append(out.Own, authority(ctx, a, i, from))
		}
	}
	return out
}

func policySet(ctx context.Context, p v1beta1.PolicySource, from Source) gate.PolicySet {
	if p.OCI != nil && (p.Builtin != "" || p.ConfigMap != nil) {
		return gate.PolicySet{Name: p.OCI.Ref, Unavailable: "an entry of spec.policies has oci and one of builtin and configMap: make two of it"}
	}
	if p.Builtin != "" {
		set, ok := policy.Builtin(p.Builtin)
		if !ok {
			return gate.PolicySet{Name: p.Builtin, Unavailable: unknownBuiltin(p.Builtin)}
		}
		return set
	}
	if p.OCI != nil {
		return gate.PolicySet{Name: p.OCI.Ref, Unavailable: "it was not looked for"}
	}
	if p.ConfigMap == nil {
		return gate.PolicySet{Name: "policies", Unavailable: "an entry of spec.policies has none of builtin, configMap and oci"}
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
	out := gate.ImageRule{
		Match: rule.Match, Require: requirement(rule.Require), RequireDigest: rule.RequireDigest,
		ByChildren: rule.SignedBy == v1beta1.SignedByChildren,
	}
	for i, a := range rule.Authorities {
		out.Authorities = append(out.Authorities, authority(ctx, a, i, from))
	}
	for _, a := range rule.Attestations {
		out.Attestations = append(out.Attestations, attestationRule(a))
	}
	return out
}

func attestationRule(a v1beta1.AttestationRule) gate.AttestationRule {
	return gate.AttestationRule{PredicateType: a.PredicateType, Authorities: a.Authorities, Policy: a.Policy}
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
