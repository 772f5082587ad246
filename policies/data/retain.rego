# METADATA
# title: Data outlives its Workload
# description: Whoever deletes the Workload deletes its data too, unless the claims are kept. Asked for in the environments of parameters.data.retainEnvironments.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#data
# custom:
#   severity: high
#   remedy: Set spec.storage.retain of the Workload to true.
package sluice.data.retain

import data.sluice.lib.objects

_environments := object.get(input.parameters, ["data", "retainEnvironments"], ["prod"])

deny contains violation if {
	input.environment in _environments
	some child in input.children
	child.kind == "StatefulSet"
	some field in ["whenDeleted", "whenScaled"]
	object.get(child, ["spec", "persistentVolumeClaimRetentionPolicy", field], "Retain") == "Delete"
	violation := {
		"msg": sprintf("the volume claims are deleted: %s is Delete", [field]),
		"object": objects.name(child),
		"path": sprintf("spec.persistentVolumeClaimRetentionPolicy.%s", [field]),
	}
}
