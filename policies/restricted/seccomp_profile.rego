# METADATA
# title: A seccomp profile is set
# description: Without a seccomp profile the container may make every system call of the kernel. Pods whose os.name is windows are left out, since the API server refuses this field there.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#restricted
# custom:
#   severity: medium
#   remedy: Set securityContext.seccompProfile.type to RuntimeDefault or Localhost.
package sluice.restricted.seccomp_profile

import data.sluice.lib.pods

_confined := {"RuntimeDefault", "Localhost"}

deny contains violation if {
	some place in pods.places
	profile := place.spec.securityContext.seccompProfile
	profile != null
	not object.get(profile, "type", "") in _confined
	not pods.on_windows(place)
	violation := pods.misset(place, "seccompProfile.type", "has no seccomp profile")
}

deny contains violation if {
	some container in pods.all_containers
	object.get(container.pod.spec, ["securityContext", "seccompProfile"], null) == null
	object.get(container.spec, ["securityContext", "seccompProfile"], null) == null
	not pods.on_windows(container)
	violation := pods.violation(container, "securityContext.seccompProfile.type", "has no seccomp profile")
}
