# METADATA
# title: Containers do not run as root
# description: A process that is root in its container is root on the node after an escape.
# custom:
#   severity: high
#   remedy: Set securityContext.runAsNonRoot to true, and runAsUser to a user other than 0 or not at all.
package sluice.restricted.run_as_non_root

import data.sluice.lib.pods

deny contains violation if {
	some container in pods.all_containers
	pods.effective(container, ["runAsNonRoot"]) != true
	violation := pods.violation(container, "securityContext.runAsNonRoot", "may run as root")
}

deny contains violation if {
	some container in pods.all_containers
	pods.effective(container, ["runAsUser"]) == 0
	violation := pods.violation(container, "securityContext.runAsUser", "runs as user 0")
}
