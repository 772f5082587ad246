package sluice.restricted.run_as_non_root_test

import data.sluice.lib.fixtures
import data.sluice.restricted.run_as_non_root

_root := "spec.template.spec"

test_allows_non_root_of_the_pod if {
	count(run_as_non_root.deny) == 0 with input as fixtures.good
}

test_denies_a_container_that_overrides_the_pod if {
	found := run_as_non_root.deny with input as fixtures.pod([["add", "containers/0/securityContext/runAsNonRoot", false]])
	fixtures.paths(found) == {sprintf("%s.containers[0].securityContext.runAsNonRoot", [_root])}
}

test_denies_every_container_when_the_pod_says_nothing if {
	found := run_as_non_root.deny with input as fixtures.pod([["remove", "securityContext", null]])
	count(found) == 2
}

test_denies_user_0 if {
	found := run_as_non_root.deny with input as fixtures.pod([["add", "containers/0/securityContext/runAsUser", 0]])
	fixtures.paths(found) == {sprintf("%s.containers[0].securityContext.runAsUser", [_root])}
}

test_denies_a_pod_that_its_containers_correct if {
	found := run_as_non_root.deny with input as fixtures.pod([
		["replace", "securityContext/runAsNonRoot", false],
		["add", "containers/0/securityContext/runAsNonRoot", true],
		["remove", "initContainers", null],
	])
	fixtures.paths(found) == {sprintf("%s.securityContext.runAsNonRoot", [_root])}
}

test_denies_user_0_of_the_pod if {
	found := run_as_non_root.deny with input as fixtures.pod([["add", "securityContext/runAsUser", 0]])
	fixtures.paths(found) == {sprintf("%s.securityContext.runAsUser", [_root])}
}

test_allows_root_of_a_user_namespace if {
	count(run_as_non_root.deny) == 0 with input as fixtures.pod([
		["add", "hostUsers", false],
		["replace", "securityContext/runAsNonRoot", false],
		["add", "containers/0/securityContext/runAsUser", 0],
	])
}
