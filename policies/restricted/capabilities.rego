# METADATA
# title: Capabilities are dropped
# description: The default capabilities of a container runtime are more than an application needs. Pods whose os.name is windows are left out, since the API server refuses these fields there.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#restricted
# custom:
#   severity: high
#   remedy: Set securityContext.capabilities.drop to [ALL] and add at most NET_BIND_SERVICE.
package sluice.restricted.capabilities

import data.sluice.lib.pods

_may_add := {"NET_BIND_SERVICE"}

deny contains violation if {
	some container in pods.all_containers
	not "ALL" in object.get(container.spec, ["securityContext", "capabilities", "drop"], [])
	not pods.on_windows(container)
	violation := pods.violation(container, "securityContext.capabilities.drop", "does not drop ALL capabilities")
}

deny contains violation if {
	some container in pods.all_containers
	some capability in container.spec.securityContext.capabilities.add
	not capability in _may_add
	not pods.on_windows(container)
	violation := pods.violation(
		container, "securityContext.capabilities.add",
		sprintf("adds capability %v", [capability]),
	)
}
