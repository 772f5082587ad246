# METADATA
# title: Services take no foreign addresses
# description: With externalIPs a Service gets the traffic that the cluster sends to an address, whoever that belongs to.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#network
# custom:
#   severity: critical
#   remedy: Remove spec.externalIPs from the Service.
package sluice.network.external_ips

import data.sluice.lib.objects

deny contains violation if {
	some child in input.children
	child.kind == "Service"
	some i, address in object.get(child, ["spec", "externalIPs"], [])
	violation := {
		"msg": sprintf("the Service takes the address %v", [address]),
		"object": objects.name(child),
		"path": sprintf("spec.externalIPs[%v]", [i]),
	}
}
