package sluice.baseline.seccomp_profile_test

import data.sluice.baseline.seccomp_profile
import data.sluice.lib.fixtures

test_allows_profiles_and_none if {
	count(seccomp_profile.deny) == 0 with input as fixtures.good
	count(seccomp_profile.deny) == 0 with input as fixtures.pod([["remove", "securityContext", null]])
}

test_denies_what_is_unconfined if {
	found := seccomp_profile.deny with input as fixtures.pod([["add", "containers/0/securityContext/seccompProfile", {"type": "Unconfined"}]])
	fixtures.paths(found) == {"spec.template.spec.containers[0].securityContext.seccompProfile.type"}
}
