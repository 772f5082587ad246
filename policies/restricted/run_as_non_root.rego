# METADATA
# title: Containers do not run as root
# description: A process that is root in its container is root on the node after an escape. Pods in a user namespace (hostUsers is false) are left out.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#restricted
# custom:
#   severity: high
#   remedy: Set securityContext.runAsNonRoot to true, and runAsUser to a user other than 0 or not at all.
package sluice.restricted.run_as_non_root

import data.sluice.lib.pods

deny contains violation if {
	some place in pods.places
	value := place.spec.securityContext.runAsNonRoot
	not value in {null, true}
	not pods.in_user_namespace(place)
	violation := pods.misset(place, "runAsNonRoot", "may run as root")
}

deny contains violation if {
	some container in pods.all_containers
	object.get(container.pod.spec, ["securityContext", "runAsNonRoot"], null) == null
	object.get(container.spec, ["securityContext", "runAsNonRoot"], null) == null
	not pods.in_user_namespace(container)
	violation := pods.violation(container, "securityContext.runAsNonRoot", "may run as root")
}

deny contains violation if {
	some place in pods.places
	place.spec.securityContext.runAsUser == 0
	not pods.in_user_namespace(place)
	violation := pods.misset(place, "runAsUser", "runs as user 0")
}
