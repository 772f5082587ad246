# METADATA
# title: No capabilities are added
# description: A capability beyond those that a container runtime gives anyway is a part of root's power over the node.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#baseline
# custom:
#   severity: high
#   remedy: Remove the capability from securityContext.capabilities.add.
package sluice.baseline.capabilities

import data.sluice.lib.pods

_may_add := {
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
	"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

deny contains violation if {
	some container in pods.all_containers
	some capability in container.spec.securityContext.capabilities.add
	not capability in _may_add
	violation := pods.violation(
		container, "securityContext.capabilities.add",
		sprintf("adds capability %v", [capability]),
	)
}
