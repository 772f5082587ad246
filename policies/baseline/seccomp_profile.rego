# METADATA
# title: Seccomp is not switched off
# description: An unconfined container may make every system call of the kernel, those that a runtime's profile keeps from it included.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#baseline
# custom:
#   severity: medium
#   remedy: Remove seccompProfile from the securityContext, or set its type to RuntimeDefault or Localhost.
package sluice.baseline.seccomp_profile

import data.sluice.lib.pods

_confined := {"RuntimeDefault", "Localhost"}

deny contains violation if {
	some place in pods.places
	profile := place.spec.securityContext.seccompProfile
	profile != null
	type := object.get(profile, "type", "")
	not type in _confined
	violation := pods.misset(place, "seccompProfile.type", sprintf("has the seccomp profile %q", [type]))
}
