# METADATA
# title: Probes and hooks stay in the pod
# description: The kubelet calls the host of a probe or hook from the node, past the network policies of the pod.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#baseline
# custom:
#   severity: high
#   remedy: Remove host from the httpGet or tcpSocket of the probe or hook.
package sluice.baseline.probe_hosts

import data.sluice.lib.pods

_handlers := [
	["livenessProbe"], ["readinessProbe"], ["startupProbe"],
	["lifecycle", "postStart"], ["lifecycle", "preStop"],
]

deny contains violation if {
	some container in pods.all_containers
	some handler in _handlers
	some action in ["httpGet", "tcpSocket"]
	path := array.concat(handler, [action, "host"])
	host := object.get(container.spec, path, "")
	not host in {null, ""}
	field := concat(".", path)
	violation := pods.violation(container, field, sprintf("calls host %v by %s", [host, field]))
}
