package sluice.baseline.host_namespaces_test

import data.sluice.baseline.host_namespaces
import data.sluice.lib.fixtures

_root := "spec.template.spec"

test_allows_own_namespaces if {
	count(host_namespaces.deny) == 0 with input as fixtures.good
}

test_denies_each_namespace_of_the_host if {
	found := host_namespaces.deny with input as fixtures.pod([["add", "hostNetwork", true], ["add", "hostPID", true], ["add", "hostIPC", true]])
	fixtures.paths(found) == {sprintf("%s.%s", [_root, f]) | some f in ["hostNetwork", "hostPID", "hostIPC"]}
}
