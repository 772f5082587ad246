# METADATA
# title: Containers are not privileged
# description: A privileged container, or a Windows host process, is root on its node.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#baseline
# custom:
#   severity: critical
#   remedy: Remove privileged and hostProcess from the securityContext; ask for the one capability or device that is needed.
package sluice.baseline.privileged

import data.sluice.lib.pods

deny contains violation if {
	some container in pods.all_containers
	container.spec.securityContext.privileged == true
	violation := pods.violation(container, "securityContext.privileged", "is privileged")
}

deny contains violation if {
	some place in pods.places
	place.spec.securityContext.windowsOptions.hostProcess == true
	violation := pods.misset(place, "windowsOptions.hostProcess", "is a host process")
}
