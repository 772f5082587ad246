# METADATA
# title: A seccomp profile is set
# description: Without a seccomp profile the container may make every system call of the kernel.
# custom:
#   severity: medium
#   remedy: Set securityContext.seccompProfile.type to RuntimeDefault or Localhost.
package sluice.restricted.seccomp_profile

import data.sluice.lib.pods

_confined := {"RuntimeDefault", "Localhost"}

deny contains violation if {
	some container in pods.all_containers
	not pods.effective(container, ["seccompProfile", "type"]) in _confined
	violation := pods.violation(container, "securityContext.seccompProfile.type", "has no seccomp profile")
}
