# METADATA
# title: Data is backed up
# description: A Workload with storage in prod, or in an environment of parameters.data.backupEnvironments, has to have a backup.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#data
# custom:
#   severity: high
#   remedy: Set spec.backup of the Workload.
package sluice.data.backup

_environments := object.get(input.parameters, ["data", "backupEnvironments"], ["prod"])

deny contains violation if {
	input.environment in _environments
	object.get(input.workload, ["spec", "storage"], null) != null
	object.get(input.workload, ["spec", "backup"], null) == null
	violation := {
		"msg": sprintf("the Workload keeps data in %s and has no backup", [input.environment]),
		"path": "spec.backup",
	}
}
