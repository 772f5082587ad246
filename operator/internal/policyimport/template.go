// Package policyimport turns policies that were written for other engines into policies of
// a Gate. It is pure: text in, text out.
package policyimport

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Policy is what a template became.
type Policy struct {
	// Name is that of the template; the Gate gives parameters under it.
	Name string
	// Modules by file name, Rego v1, for one ConfigMap.
	Modules map[string]string
	// Parameters says whether the template reads any.
	Parameters bool
}

// ConstraintTemplate of Gatekeeper.
const (
	TemplateGroup = "templates.gatekeeper.sh"
	TemplateKind  = "ConstraintTemplate"
)

// source is the Rego of a template: its own module and libraries.
type source struct {
	rego string
	libs []string
	// v1 says that it is Rego v1 already.
	v1 bool
}

// Template imports a ConstraintTemplate, given as decoded JSON. Each module is rewritten to
// Rego v1, and the template's own gets a part that hands it what Gatekeeper would: each
// object as input.review.object, and the parameters of the Gate. A template that reads what
// no gate has in the pull request, such as the old object, who asks or other objects of the
// cluster, is refused: it would find less than it does under Gatekeeper.
func Template(content map[string]any) (Policy, error) {
	name, _ := dig(content, "metadata", "name").(string)
	kind, _ := dig(content, "spec", "crd", "spec", "names", "kind").(string)
	if name == "" || name != strings.ToLower(kind) {
		return Policy{}, fmt.Errorf("metadata.name %q has to be spec.crd.spec.names.kind %q in lower case, as Gatekeeper asks for", name, kind)
	}
	from, err := readSource(content)
	if err != nil {
		return Policy{}, err
	}
	p, err := translate(name, from)
	if err != nil {
		return Policy{}, err
	}
	if err := policy.Compile(gate.PolicySet{Name: name, Modules: p.Modules}); err != nil {
		return Policy{}, fmt.Errorf("the template cannot be a policy: %w", err)
	}
	return p, nil
}

// readSource takes the Rego from spec.targets, where older templates have it as rego and
// libs, and newer ones in code by engine.
func readSource(content map[string]any) (source, error) {
	targets, _ := dig(content, "spec", "targets").([]any)
	if len(targets) != 1 {
		return source{}, fmt.Errorf("spec.targets has %d entries: a template has one, for admission.k8s.gatekeeper.sh", len(targets))
	}
	target, _ := targets[0].(map[string]any)
	rego, libs, v1 := target["rego"], target["libs"], false
	engines := []string{}
	code, _ := target["code"].([]any)
	for _, entry := range code {
		entry, _ := entry.(map[string]any)
		engine, _ := entry["engine"].(string)
		engines = append(engines, engine)
		if engine == "Rego" {
			rego, libs = dig(entry, "source", "rego"), dig(entry, "source", "libs")
			v1 = dig(entry, "source", "version") == "v1"
		}
	}
	text, _ := rego.(string)
	if text == "" {
		if len(engines) > 0 {
			return source{}, fmt.Errorf("spec.targets[0].code is for %s: only Rego can be imported", strings.Join(engines, ", "))
		}
		return source{}, errors.New("spec.targets[0] has no Rego, neither as rego nor in code")
	}
	out := source{rego: text, v1: v1}
	size := len(text)
	list, _ := libs.([]any)
	for i, lib := range list {
		text, ok := lib.(string)
		if !ok {
			return source{}, fmt.Errorf("libs[%d] of spec.targets[0] is not text", i)
		}
		out.libs = append(out.libs, text)
		size += len(text)
	}
	if size > limits.PolicyBytes {
		return source{}, fmt.Errorf("the template has %d bytes of Rego, more than %d (limits.PolicyBytes)", size, limits.PolicyBytes)
	}
	return out, nil
}

// dig follows keys through objects; nil where there is none.
func dig(value any, keys ...string) any {
	for _, key := range keys {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	return value
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for word := range set {
		out = append(out, word)
	}
	sort.Strings(out)
	return out
}
