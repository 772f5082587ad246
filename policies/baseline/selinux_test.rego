package sluice.baseline.selinux_test

import data.sluice.baseline.selinux
import data.sluice.lib.fixtures

test_allows_types_of_containers if {
	count(selinux.deny) == 0 with input as fixtures.good
	count(selinux.deny) == 0 with input as fixtures.pod([["add", "securityContext/seLinuxOptions", {"type": "container_t", "level": "s0"}]])
}

test_denies_type_user_and_role if {
	found := selinux.deny with input as fixtures.pod([
		["add", "securityContext/seLinuxOptions", {"type": "spc_t"}],
		["add", "containers/0/securityContext/seLinuxOptions", {"user": "root", "role": "sysadm_r"}],
	])
	fixtures.paths(found) == {
		"spec.template.spec.securityContext.seLinuxOptions.type",
		"spec.template.spec.containers[0].securityContext.seLinuxOptions.user",
		"spec.template.spec.containers[0].securityContext.seLinuxOptions.role",
	}
}
