# METADATA
# title: Replicas are spread
# description: Replicas on one node or in one zone are lost together. Asked of what runs more than one replica in the environments of parameters.reliability.criticalEnvironments.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#reliability
# custom:
#   severity: medium
#   remedy: "Set availability.spread of the Workload, such as [{topologyKey: kubernetes.io/hostname}], or topologySpreadConstraints of the pod."
package sluice.reliability.topology_spread

import data.sluice.lib.pods

_environments := object.get(input.parameters, ["reliability", "criticalEnvironments"], ["prod"])

deny contains violation if {
	input.environment in _environments
	some set in pods.replicated
	count(object.get(set.spec, "topologySpreadConstraints", [])) == 0
	object.get(set.spec, ["affinity", "podAntiAffinity"], null) in {null, {}}
	violation := {
		"msg": sprintf("nothing spreads the %v replicas over nodes or zones", [set.replicas]),
		"object": set.object,
		"path": "spec.template.spec.topologySpreadConstraints",
	}
}
