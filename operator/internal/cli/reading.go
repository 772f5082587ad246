package cli

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

// reading is all that was read for a command.
type reading struct {
	worlds []*world
	// looks are what was looked at for each source, in order.
	looks []*overlay.Seen
	// warnings of all sources that were written, in order.
	warnings []string
	// policies are those of all worlds, compiled once.
	policies *policy.Check
	// ahead are the groups of the library that compile before a Gate is known to be right.
	ahead map[string]bool
}

// world is what counts together: the rules in it are those that its objects are judged by.
type world struct {
	*input
	// of is the path of the overlay that it is apart for; "" where there is one world.
	of string
	// scope is nil where everything is judged.
	scope *scope
}

// given is one path that was read.
type given struct {
	path string
	set  *overlay.Set
	// rules says that it was named by --gate: what is in it is not judged.
	rules bool
}

// read reads what is checked and what the Gates need. Gates, Exemptions, Namespaces,
// ConfigMaps and Secrets count wherever they stand; Workloads only in paths. With a base,
// only what differs from that revision is to be judged.
func read(ctx context.Context, s streams, root string, paths, gates []string, base string) (*reading, error) {
	return readAs(ctx, s, root, paths, gates, base, true)
}

// readGates reads Gates, and what they need, of overlays that are apart. Nothing in them is
// judged, and so may be in several, in as many ways.
func readGates(ctx context.Context, s streams, root string, paths []string) (*reading, error) {
	return readAs(ctx, s, root, paths, nil, "", false)
}

func readAs(ctx context.Context, s streams, root string, paths, gates []string, base string, judged bool) (*reading, error) {
	go func() { _, _ = known() }() // Kustomize builds on one core
	r := &reading{policies: policy.New(), ahead: map[string]bool{}}
	var sources []given
	for i, path := range append(append([]string(nil), gates...), paths...) {
		set, err := overlay.Load(root, path, s.in)
		if err != nil {
			return nil, usage("%w", err)
		}
		r.warnings = append(r.warnings, s.warn(set.Warnings)...)
		sources = append(sources, given{path, set, i < len(gates)})
		r.looks = append(r.looks, set.Seen)
		r.prepare(set)
	}
	trees := map[string]*changes{}
	for _, members := range apart(sources) {
		w := &world{input: newInput(s), of: members.of}
		if base != "" {
			w.scope = newScope(base, trees)
		}
		for _, m := range members.sources {
			m.rules = m.rules || !judged
			if err := w.enter(ctx, m); err != nil {
				return nil, err
			}
		}
		r.worlds = append(r.worlds, w)
	}
	if kinds, err := known(); err == nil {
		// All of these were read, and the collector would go through them again and again.
		kinds.Forget(v1beta1.GroupVersion.WithKind(v1beta1.GateKind))
		kinds.Forget(v1beta1.GroupVersion.WithKind(v1beta1.ExemptionKind))
	}
	return r, nil
}

// prepare starts to compile the groups of the library that the Gates of a set name, while the
// next one is read. A Gate that is wrong is found when it is taken in: no more than
// limits.PoliciesAhead are compiled for what may be such.
func (r *reading) prepare(set *overlay.Set) {
	for _, o := range set.Objects {
		if !isGate(o) {
			continue
		}
		policies, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "policies")
		list, _ := policies.([]any)
		var groups []string
		for _, p := range list {
			if named, ok := p.(map[string]any); ok {
				if group, ok := named["builtin"].(string); ok {
					groups = append(groups, group)
				}
			}
		}
		slices.Sort(groups)
		key := fmt.Sprintf("%q", slices.Compact(groups))
		if !r.ahead[key] && len(r.ahead) < limits.PoliciesAhead {
			r.ahead[key] = true
			r.policies.Prepare(groups)
		}
	}
}

// apart are the paths of the overlays that are judged apart.
func (r *reading) apart() []string {
	var out []string
	for _, w := range r.worlds {
		if w.of != "" {
			out = append(out, w.of)
		}
	}
	return out
}

// enter takes a source in.
func (w *world) enter(ctx context.Context, from given) error {
	if w.scope != nil {
		if err := w.scope.note(ctx, from.path, from.set, from.rules); err != nil {
			return err
		}
	}
	return w.take(ctx, from.set, !from.rules)
}

// members are the sources of a world.
type members struct {
	of      string
	sources []given
}

// apart keeps overlays from each other that each bring a Gate, as those of a fleet do: the
// same Workload is in all of them, and each is for another environment. What other paths
// bring counts in every one.
func apart(sources []given) []members {
	var common, overlays []given
	for _, s := range sources {
		if !s.rules && s.set.Kustomization != "" && guards(s.set) {
			overlays = append(overlays, s)
		} else {
			common = append(common, s)
		}
	}
	if len(overlays) < 2 {
		return []members{{sources: sources}}
	}
	var out []members
	var shared []given
	judged := false
	for _, s := range common {
		judged = judged || !s.rules
		s.rules = true
		shared = append(shared, s)
	}
	if judged {
		out = append(out, members{sources: common})
	}
	for _, o := range overlays {
		out = append(out, members{of: o.path, sources: append(shared[:len(shared):len(shared)], o)})
	}
	return out
}

// guards says whether a set has a Gate.
func guards(set *overlay.Set) bool {
	return slices.ContainsFunc(set.Objects, isGate)
}

func isGate(o overlay.Object) bool {
	return o.GroupVersionKind().GroupKind() == v1beta1.GroupVersion.WithKind(v1beta1.GateKind).GroupKind()
}
