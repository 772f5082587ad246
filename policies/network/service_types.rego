# METADATA
# title: Services stay inside the cluster
# description: A NodePort or LoadBalancer opens the Service to whoever reaches the nodes or the load balancer, and an ExternalName sends callers to another host. parameters.network.allowedServiceTypes lists types that may be used.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#network
# custom:
#   severity: high
#   remedy: Leave type of the Service at ClusterIP and publish it by an Ingress or Gateway, or add the type to parameters.network.allowedServiceTypes of the Gate.
package sluice.network.service_types

import data.sluice.lib.objects

_allowed := object.get(input.parameters, ["network", "allowedServiceTypes"], ["ClusterIP"])

deny contains violation if {
	some child in input.children
	child.kind == "Service"
	type := object.get(child, ["spec", "type"], "ClusterIP")
	not type in _allowed
	violation := {
		"msg": sprintf("the Service is of type %s", [type]),
		"object": objects.name(child),
		"path": "spec.type",
	}
}
