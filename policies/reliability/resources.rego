# METADATA
# title: Resources are asked for
# description: Without requests a pod is placed blindly and evicted first; without a memory limit one leak takes the node down. Jobs and CronJobs are left out.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#reliability
# custom:
#   severity: medium
#   remedy: Set resources.requests.cpu, resources.requests.memory and resources.limits.memory.
package sluice.reliability.resources

import data.sluice.lib.pods

_required := [["requests", "cpu"], ["requests", "memory"], ["limits", "memory"]]

deny contains violation if {
	some container in pods.service_containers
	some path in _required
	object.get(container.spec, array.concat(["resources"], path), null) in {null, ""}
	field := concat(".", path)
	violation := pods.violation(
		container, sprintf("resources.%s", [field]),
		sprintf("sets no resources.%s", [field]),
	)
}
