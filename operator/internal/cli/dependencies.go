package cli

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/graph"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

// dependent is a Workload, or what has not become one, as far as dependencies go.
type dependent struct {
	file string
	// key is the zero value where its schema refused it.
	key client.ObjectKey
	// workload is nil where it says nothing of dependencies: of a thousand, few do.
	workload *v1beta1.Workload
}

func dependentOf(sub subject) dependent {
	w := sub.workload
	if w == nil {
		return dependent{}
	}
	out := dependent{file: sub.file, key: client.ObjectKeyFromObject(w)}
	if len(w.Spec.DependsOn) > 0 || len(w.Spec.DependentNamespaces) > 0 {
		out.workload = w
	}
	return out
}

// disorder lists what is wrong with the dependencies among the Workloads that are checked,
// cycles, and dependencies that the Workload they name does not allow. What is not among
// them may be in the cluster, and is not spoken of.
func disorder(all []dependent) ([]report.Fault, error) {
	given := map[client.ObjectKey]dependent{}
	for _, d := range all {
		given[d.key] = d
	}
	delete(given, client.ObjectKey{})
	g := graph.New()
	var faults []report.Fault
	for _, d := range all {
		if d.workload == nil {
			continue
		}
		for i, ref := range d.workload.Spec.DependsOn {
			key := gather.DependencyKey(d.workload, ref)
			target, known := given[key]
			if !known {
				continue
			}
			if !gather.MayDependOn(d.key.Namespace, key.Namespace, target.workload) {
				faults = append(faults, d.misplaced(field.Forbidden(field.NewPath("spec", "dependsOn").Index(i), gather.NotAllowed(key, d.key.Namespace))))
				continue
			}
			if err := g.Add(gather.NodeOf(d.key), gather.NodeOf(key)); err != nil {
				return nil, usage("spec.dependsOn: %w", err)
			}
		}
	}
	for _, cycle := range g.Cycles() {
		if len(faults) >= limits.Findings {
			break
		}
		first := given[client.ObjectKey{Namespace: cycle[0].Namespace, Name: cycle[0].Name}]
		faults = append(faults, first.misplaced(gather.Cyclic(first.workload, g)))
	}
	return faults, nil
}

func (d dependent) misplaced(err *field.Error) report.Fault {
	return report.Fault{
		Rule: "dependencies", Message: fmt.Sprintf("Workload/%s: %s", gather.NodeOf(d.key), err), Place: report.Place{File: d.file},
	}
}
