# METADATA
# title: Privileges cannot be gained
# description: Without allowPrivilegeEscalation set to false a setuid binary in the image makes the process root.
# custom:
#   severity: high
#   remedy: Set securityContext.allowPrivilegeEscalation to false on every container.
package sluice.restricted.privilege_escalation

import data.sluice.lib.pods

deny contains violation if {
	some container in pods.all_containers
	object.get(container.spec, ["securityContext", "allowPrivilegeEscalation"], true) != false
	violation := pods.violation(container, "securityContext.allowPrivilegeEscalation", "may gain privileges")
}
