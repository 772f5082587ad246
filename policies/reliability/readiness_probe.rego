# METADATA
# title: Readiness is probed
# description: Without a readiness probe a pod gets traffic before it can serve and while it cannot. Only containers that publish ports are looked at; warns.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#reliability
# custom:
#   severity: low
#   remedy: Set probes.readiness of the Workload, or readinessProbe of the container.
package sluice.reliability.readiness_probe

import data.sluice.lib.pods

warn contains violation if {
	some container in pods.service_containers
	container.type == "containers"
	count(object.get(container.spec, "ports", [])) > 0
	object.get(container.spec, "readinessProbe", null) == null
	violation := pods.violation(container, "readinessProbe", "has no readiness probe")
}
