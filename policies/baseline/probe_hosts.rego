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

deny contains violation if {
	some container in pods.all_containers
	some probe in ["livenessProbe", "readinessProbe", "startupProbe"]
	some action, handler in container.spec[probe]
	host := handler.host
	violation := _calling(container, probe, action, host)
}

deny contains violation if {
	some container in pods.all_containers
	lifecycle := container.spec.lifecycle
	some hook in ["postStart", "preStop"]
	some action, handler in lifecycle[hook]
	host := handler.host
	violation := _calling(container, sprintf("lifecycle.%s", [hook]), action, host)
}

_calling(container, caller, action, host) := violation if {
	action in {"httpGet", "tcpSocket"}
	not host in {null, ""}
	field := sprintf("%s.%s.host", [caller, action])
	violation := pods.violation(container, field, sprintf("calls host %v by %s", [host, field]))
}
