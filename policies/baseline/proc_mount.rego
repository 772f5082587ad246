# METADATA
# title: The proc file system stays masked
# description: An unmasked /proc shows a container what belongs to the node and lets it change it; a pod in a user namespace (hostUsers is false) may have it.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#baseline
# custom:
#   severity: high
#   remedy: Remove procMount from the securityContext, or set it to Default.
package sluice.baseline.proc_mount

import data.sluice.lib.pods

deny contains violation if {
	some place in pods.places
	value := place.spec.securityContext.procMount
	not value in {null, "Default"}
	not pods.in_user_namespace(place)
	violation := pods.misset(place, "procMount", "unmasks /proc")
}
