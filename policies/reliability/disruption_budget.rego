# METADATA
# title: Node drains leave pods running
# description: Without a PodDisruptionBudget a drain may evict every pod at once; with one that allows no eviction a drain never ends. Asked of Workloads with more than one replica in the environments of parameters.reliability.criticalEnvironments.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#reliability
# custom:
#   severity: high
#   remedy: Set availability.minAvailable of the Workload to less than its replicas, and remove the patch that takes the PodDisruptionBudget away or changes its selector.
package sluice.reliability.disruption_budget

import data.sluice.lib.labels
import data.sluice.lib.objects
import data.sluice.lib.pods

_environments := object.get(input.parameters, ["reliability", "criticalEnvironments"], ["prod"])

# Only a Workload brings its budget along; whoever writes a Deployment by hand writes it apart.
deny contains violation if {
	input.environment in _environments
	input.workload.kind
	some set in pods.replicated
	count(_budgets(set)) == 0
	violation := {"msg": "no PodDisruptionBudget selects the pods", "object": set.object, "path": "spec.template.metadata.labels"}
}

deny contains violation if {
	input.environment in _environments
	some set in pods.replicated
	some budget in _budgets(set)
	_blocks(object.get(budget, "spec", {}), set.replicas)
	violation := {"msg": "the PodDisruptionBudget allows no eviction, so that nodes cannot be drained", "object": objects.name(budget), "path": "spec"}
}

_budgets(set) := [child |
	some child in input.children
	child.kind == "PodDisruptionBudget"
	labels.selects(object.get(child, ["spec", "selector"], null), set.labels)
]

_blocks(spec, _) if object.get(spec, "maxUnavailable", null) in {0, "0", "0%"}

_blocks(spec, _) if object.get(spec, "minAvailable", null) == "100%"

_blocks(spec, replicas) if {
	is_number(spec.minAvailable)
	spec.minAvailable >= replicas
}
