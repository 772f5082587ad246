# METADATA
# title: SELinux labels stay those of containers
# description: A SELinux user, role or type of another kind takes off what keeps a container from the files and processes of its node.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#baseline
# custom:
#   severity: high
#   remedy: Remove seLinuxOptions from the securityContext, or set only level and one of the types container_t, container_init_t, container_kvm_t and container_engine_t.
package sluice.baseline.selinux

import data.sluice.lib.pods

deny contains violation if {
	some place in pods.places
	some field, value in place.spec.securityContext.seLinuxOptions
	msg := _wrong(field, value)
	violation := pods.misset(place, sprintf("seLinuxOptions.%s", [field]), msg)
}

_wrong("type", type) := sprintf("has the SELinux type %q", [type]) if {
	not type in {null, "", "container_engine_t", "container_init_t", "container_kvm_t", "container_t"}
}

_wrong(field, value) := sprintf("sets a SELinux %s", [field]) if {
	field in {"role", "user"}
	not value in {"", null}
}
