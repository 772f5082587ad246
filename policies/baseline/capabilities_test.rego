package sluice.baseline.capabilities_test

import data.sluice.baseline.capabilities
import data.sluice.lib.fixtures

test_allows_what_runtimes_give if {
	count(capabilities.deny) == 0 with input as fixtures.good
	count(capabilities.deny) == 0 with input as fixtures.pod([["add", "containers/0/securityContext/capabilities/add", ["CHOWN"]]])
}

test_does_not_ask_for_a_drop if {
	count(capabilities.deny) == 0 with input as fixtures.pod([["remove", "containers/0/securityContext", null]])
}

test_denies_others if {
	found := capabilities.deny with input as fixtures.pod([["add", "initContainers/0/securityContext/capabilities/add", ["NET_RAW", "KILL"]]])
	fixtures.paths(found) == {"spec.template.spec.initContainers[0].securityContext.capabilities.add"}
}
