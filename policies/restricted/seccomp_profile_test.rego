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
