package sluice.restricted.proc_mount_test

import data.sluice.lib.fixtures
import data.sluice.restricted.proc_mount

test_allows_the_default if {
	count(proc_mount.deny) == 0 with input as fixtures.good
}

test_denies_an_unmasked_proc_in_a_user_namespace_too if {
	found := proc_mount.deny with input as fixtures.pod([
		["add", "hostUsers", false],
		["add", "containers/0/securityContext/procMount", "Unmasked"],
	])
	fixtures.paths(found) == {"spec.template.spec.containers[0].securityContext.procMount"}
}
