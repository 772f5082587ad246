# METADATA
# title: Privileges cannot be gained
# description: Without allowPrivilegeEscalation set to false a setuid binary in the image makes the process root. Pods whose os.name is windows are left out, since the API server refuses this field there.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#restricted
# custom:
#   severity: high
#   remedy: Set securityContext.allowPrivilegeEscalation to false on every container.
package sluice.restricted.privilege_escalation

import data.sluice.lib.pods

deny contains violation if {
	some container in pods.all_containers
	not container.spec.securityContext.allowPrivilegeEscalation == false
	not pods.on_windows(container)
	violation := pods.violation(container, "securityContext.allowPrivilegeEscalation", "may gain privileges")
}
