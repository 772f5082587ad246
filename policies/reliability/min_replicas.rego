# METADATA
# title: Enough replicas
# description: One pod is down whenever its node is drained or lost; parameters.reliability.minReplicas says how many this environment asks for.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#reliability
# custom:
#   severity: high
#   remedy: Raise spec.replicas to at least parameters.reliability.minReplicas of the Gate.
package sluice.reliability.min_replicas

import data.sluice.lib.objects

_scaled := {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"}

_parameter := input.parameters.reliability.minReplicas

deny contains violation if {
	is_number(_parameter)
	some child in input.children
	child.kind in _scaled
	replicas := object.get(child, ["spec", "replicas"], 1)
	replicas < _parameter
	violation := {
		"msg": sprintf("%v replicas, at least %v are asked for", [replicas, _parameter]),
		"object": objects.name(child),
		"path": "spec.replicas",
	}
}

deny contains violation if {
	parameter := _parameter
	not is_number(parameter)
	violation := {
		"msg": "parameters.reliability.minReplicas of the Gate is not a number",
		"remedy": "Write minReplicas in the Gate as a number, without quotes.",
	}
}
