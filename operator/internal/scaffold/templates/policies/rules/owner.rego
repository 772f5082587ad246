# METADATA
# title: Workloads name their owner
# custom:
#   severity: medium
#   remedy: Set the label owner to the team that is called when it breaks.
package house.owner

deny contains violation if {
	input.object.kind == "Workload"
	object.get(input.object, ["metadata", "labels", "owner"], "") == ""
	violation := {
		"msg": "nobody owns this Workload",
		"path": "metadata.labels.owner",
	}
}
