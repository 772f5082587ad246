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
	some place in pods.set_in_context(["seccompProfile"])
	type := object.get(place.value, "type", "")
	not type in _confined
	violation := object.union(
		pods.misset(place, sprintf("has the seccomp profile %q", [type])),
		{"path": sprintf("%s.type", [place.path])},
	)
}
