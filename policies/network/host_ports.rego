# METADATA
# title: Ports of the node are not taken
# description: A host port binds the pod to a free node, and no NetworkPolicy stands before it. parameters.network.allowedHostPorts lists those that may be taken.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#network
# custom:
#   severity: high
#   remedy: Remove hostPort and publish the port by a Service, or add it to parameters.network.allowedHostPorts of the Gate.
package sluice.network.host_ports

import data.sluice.lib.pods

_allowed := object.get(input.parameters, ["network", "allowedHostPorts"], [])

deny contains violation if {
	some container in pods.all_containers
	some i, port in object.get(container.spec, "ports", [])
	number := object.get(port, "hostPort", 0)
	not number in {0, null}
	not number in _allowed
	violation := pods.violation(
		container, sprintf("ports[%v].hostPort", [i]),
		sprintf("takes port %v of the node", [number]),
	)
}
