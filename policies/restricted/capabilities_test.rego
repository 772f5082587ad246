package sluice.restricted.capabilities_test

import data.sluice.lib.fixtures
import data.sluice.restricted.capabilities

_root := "spec.template.spec"

test_allows_dropped_capabilities if {
	count(capabilities.deny) == 0 with input as fixtures.good
}

test_allows_net_bind_service if {
	count(capabilities.deny) == 0 with input as fixtures.pod([["add", "containers/0/securityContext/capabilities/add", ["NET_BIND_SERVICE"]]])
}

test_denies_an_added_capability if {
	found := capabilities.deny with input as fixtures.pod([["add", "containers/0/securityContext/capabilities/add", ["SYS_ADMIN"]]])
	fixtures.paths(found) == {sprintf("%s.containers[0].securityContext.capabilities.add", [_root])}
}

test_denies_what_is_not_dropped if {
	found := capabilities.deny with input as fixtures.pod([["replace", "containers/0/securityContext/capabilities/drop", ["NET_RAW"]]])
	fixtures.paths(found) == {sprintf("%s.containers[0].securityContext.capabilities.drop", [_root])}
}

test_leaves_windows_out if {
	count(capabilities.deny) == 0 with input as fixtures.pod([["add", "os", {"name": "windows"}], ["remove", "containers/0/securityContext", null]])
	count(capabilities.deny) > 0 with input as fixtures.pod([["add", "os", {"name": "linux"}], ["remove", "containers/0/securityContext", null]])
}
