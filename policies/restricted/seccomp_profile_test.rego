package sluice.restricted.seccomp_profile_test

import data.sluice.lib.fixtures
import data.sluice.restricted.seccomp_profile

_root := "spec.template.spec"

test_allows_the_profile_of_the_pod if {
	count(seccomp_profile.deny) == 0 with input as fixtures.good
}

test_denies_a_pod_without_profile if {
	found := seccomp_profile.deny with input as fixtures.pod([["remove", "securityContext/seccompProfile", null]])
	count(found) == 2
}

test_denies_a_container_that_is_unconfined if {
	found := seccomp_profile.deny with input as fixtures.pod([["add", "containers/0/securityContext/seccompProfile", {"type": "Unconfined"}]])
	fixtures.paths(found) == {sprintf("%s.containers[0].securityContext.seccompProfile.type", [_root])}
}

test_leaves_windows_out if {
	count(seccomp_profile.deny) == 0 with input as fixtures.pod([["add", "os", {"name": "windows"}], ["remove", "containers/0/securityContext", null], ["remove", "securityContext", null]])
	count(seccomp_profile.deny) > 0 with input as fixtures.pod([["add", "os", {"name": "linux"}], ["remove", "containers/0/securityContext", null], ["remove", "securityContext", null]])
}

test_denies_a_pod_that_its_containers_correct if {
	found := seccomp_profile.deny with input as fixtures.pod([
		["replace", "securityContext/seccompProfile", {"type": "Unconfined"}],
		["add", "containers/0/securityContext/seccompProfile", {"type": "RuntimeDefault"}],
		["remove", "initContainers", null],
	])
	fixtures.paths(found) == {sprintf("%s.securityContext.seccompProfile.type", [_root])}
}
