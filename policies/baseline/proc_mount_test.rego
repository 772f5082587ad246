package sluice.baseline.proc_mount_test

import data.sluice.baseline.proc_mount
import data.sluice.lib.fixtures

test_allows_the_default if {
	count(proc_mount.deny) == 0 with input as fixtures.good
	count(proc_mount.deny) == 0 with input as fixtures.pod([["add", "containers/0/securityContext/procMount", "Default"]])
}

test_denies_an_unmasked_proc if {
	found := proc_mount.deny with input as fixtures.pod([["add", "containers/0/securityContext/procMount", "Unmasked"]])
	fixtures.paths(found) == {"spec.template.spec.containers[0].securityContext.procMount"}
}

test_allows_it_in_a_user_namespace if {
	count(proc_mount.deny) == 0 with input as fixtures.pod([
		["add", "hostUsers", false],
		["add", "containers/0/securityContext/procMount", "Unmasked"],
	])
}

test_denies_it_where_the_pod_says_that_it_is_in_none if {
	found := proc_mount.deny with input as fixtures.pod([
		["add", "hostUsers", true],
		["add", "initContainers/0/securityContext/procMount", "Unmasked"],
	])
	count(found) == 1
}
