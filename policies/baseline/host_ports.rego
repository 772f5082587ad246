# METADATA
# title: Host ports are not used
# description: A host port binds the pod to a free node and bypasses Services and network policies.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#baseline
# custom:
#   severity: high
#   remedy: Remove hostPort and publish the port by a Service.
package sluice.baseline.host_ports

import data.sluice.lib.pods

deny contains violation if {
	some container in pods.all_containers
	some i, port in container.spec.ports
	number := port.hostPort
	number != 0
	violation := pods.violation(
		container, sprintf("ports[%v].hostPort", [i]),
		sprintf("uses port %v of the node", [number]),
	)
}
