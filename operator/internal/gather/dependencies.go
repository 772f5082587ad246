package gather

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/graph"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Dependency is one entry of spec.dependsOn, as it was found.
type Dependency struct {
	Key client.ObjectKey
	// Workload is nil where there is none.
	Workload *v1beta1.Workload
	// Allowed says that its owner lets it be depended on from there. For a Workload of
	// another namespace that does not exist nobody does, so that the two cannot be told
	// apart by those who may not read that namespace.
	Allowed bool
}

// Dependencies finds what a Workload depends on, in the order of its spec, and the graph
// of all that can be reached from it. What is not there, or not allowed, is not in the
// graph: nobody waits for it in a circle. The error is graph.ErrTooLarge when more is
// reached than package limits allows, and else what the reader said.
func Dependencies(ctx context.Context, w *v1beta1.Workload, reader client.Reader) ([]Dependency, *graph.Graph, error) {
	t := &traversal{reader: reader, graph: graph.New(), known: map[client.ObjectKey]*v1beta1.Workload{client.ObjectKeyFromObject(w): w}}
	first, err := t.visit(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	for depth := 1; len(t.next) > 0; depth++ {
		if depth > limits.DependencyDepth {
			return nil, nil, fmt.Errorf("%w: a chain of more than %d Workloads (limits.DependencyDepth)", graph.ErrTooLarge, limits.DependencyDepth)
		}
		level := t.next
		t.next = nil
		for _, at := range level {
			if _, err := t.visit(ctx, at); err != nil {
				return nil, nil, err
			}
		}
	}
	return first, t.graph, nil
}

// traversal reads Workloads level by level, each once.
type traversal struct {
	reader client.Reader
	graph  *graph.Graph
	known  map[client.ObjectKey]*v1beta1.Workload
	next   []*v1beta1.Workload
}

func (t *traversal) visit(ctx context.Context, w *v1beta1.Workload) ([]Dependency, error) {
	out := make([]Dependency, 0, len(w.Spec.DependsOn))
	for _, ref := range w.Spec.DependsOn {
		d := Dependency{Key: DependencyKey(w, ref)}
		target, seen := t.known[d.Key]
		if !seen {
			if len(t.known) > limits.DependencyReach {
				return nil, fmt.Errorf("%w: more than %d Workloads, dependencies of dependencies included (limits.DependencyReach)", graph.ErrTooLarge, limits.DependencyReach)
			}
			var err error
			if target, err = t.read(ctx, d.Key); err != nil {
				return nil, err
			}
		}
		d.Workload, d.Allowed = target, MayDependOn(w.Namespace, d.Key.Namespace, target)
		out = append(out, d)
		if target == nil || !d.Allowed {
			continue
		}
		if !seen {
			t.next = append(t.next, target)
		}
		if err := t.graph.Add(NodeOf(client.ObjectKeyFromObject(w)), NodeOf(d.Key)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// read finds a Workload; nil, and no error, when there is none.
func (t *traversal) read(ctx context.Context, key client.ObjectKey) (*v1beta1.Workload, error) {
	t.known[key] = nil
	w := &v1beta1.Workload{}
	err := t.reader.Get(ctx, key, w)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Workload %s: %w", key, err)
	}
	t.known[key] = w
	return w, nil
}

// DependencyKey is the Workload that an entry of w's spec.dependsOn names.
func DependencyKey(w *v1beta1.Workload, ref v1beta1.DependencyRef) client.ObjectKey {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if key.Namespace == "" {
		key.Namespace = w.Namespace
	}
	return key
}

// NodeOf is a Workload in the graph.
func NodeOf(key client.ObjectKey) graph.Node {
	return graph.Node{Namespace: key.Namespace, Name: key.Name}
}

// MayDependOn says whether Workloads of a namespace may depend on target, which is looked
// up in another or the same, and nil where there is none. The consent stands on the target,
// since whoever deploys the dependent is, with GitOps, the same account for every team.
func MayDependOn(namespace, of string, target *v1beta1.Workload) bool {
	if namespace == of {
		return true
	}
	return target != nil && (slices.Contains(target.Spec.DependentNamespaces, namespace) || slices.Contains(target.Spec.DependentNamespaces, "*"))
}

// NotAllowed tells that a Workload may not be depended on from a namespace, in the same
// words whether it exists or not.
func NotAllowed(key client.ObjectKey, namespace string) string {
	return fmt.Sprintf("there is no Workload %s that names namespace %s in spec.dependentNamespaces; ask the owners of namespace %s, or take the dependency out",
		key, namespace, key.Namespace)
}

// Cyclic tells of a cycle through w, at the field that closes it; nil when there is none.
func Cyclic(w *v1beta1.Workload, g *graph.Graph) *field.Error {
	self := NodeOf(client.ObjectKeyFromObject(w))
	cycle := g.Cycle(self)
	if cycle == nil {
		return nil
	}
	next := cycle[(slices.Index(cycle, self)+1)%len(cycle)]
	i := slices.IndexFunc(w.Spec.DependsOn, func(ref v1beta1.DependencyRef) bool { return NodeOf(DependencyKey(w, ref)) == next })
	return field.Invalid(field.NewPath("spec", "dependsOn").Index(i), next.String(),
		"is a cycle of dependencies, in which none can start: "+graph.Path(cycle)+"; take one of them out")
}
