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

// disorder lists what is wrong with the dependencies among the Workloads that are checked,
// cycles, and dependencies that the Workload they name does not allow. What is not among
// them may be in the cluster, and is not spoken of.
func disorder(subjects []subject) ([]report.Fault, error) {
	given := map[client.ObjectKey]subject{}
	for _, sub := range subjects {
		if sub.workload != nil {
			given[client.ObjectKeyFromObject(sub.workload)] = sub
		}
	}
	g := graph.New()
	var faults []report.Fault
	for _, sub := range subjects {
		if sub.workload == nil {
			continue
		}
		for i, ref := range sub.workload.Spec.DependsOn {
			key := gather.DependencyKey(sub.workload, ref)
			target, known := given[key]
			if !known {
				continue
			}
			if !gather.MayDependOn(sub.workload.Namespace, key.Namespace, target.workload) {
				faults = append(faults, misplaced(sub, field.Forbidden(field.NewPath("spec", "dependsOn").Index(i), gather.NotAllowed(key, sub.workload.Namespace))))
				continue
			}
			if err := g.Add(nodeOf(sub.workload), gather.NodeOf(key)); err != nil {
				return nil, usage("spec.dependsOn: %w", err)
			}
		}
	}
	for _, cycle := range g.Cycles() {
		if len(faults) >= limits.Findings {
			break
		}
		first := given[client.ObjectKey{Namespace: cycle[0].Namespace, Name: cycle[0].Name}]
		faults = append(faults, misplaced(first, gather.Cyclic(first.workload, g)))
	}
	return faults, nil
}

func nodeOf(w *v1beta1.Workload) graph.Node { return gather.NodeOf(client.ObjectKeyFromObject(w)) }

func misplaced(sub subject, err *field.Error) report.Fault {
	return report.Fault{
		Rule: "dependencies", Message: fmt.Sprintf("Workload/%s: %s", nodeOf(sub.workload), err), Place: report.Place{File: sub.file},
	}
}
