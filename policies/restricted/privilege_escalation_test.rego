package sluice.restricted.privilege_escalation_test

import data.sluice.lib.fixtures
import data.sluice.restricted.privilege_escalation

_root := "spec.template.spec"

test_allows_escalation_switched_off if {
	count(privilege_escalation.deny) == 0 with input as fixtures.good
}

test_denies_escalation_switched_on if {
	found := privilege_escalation.deny with input as fixtures.pod([["replace", "containers/0/securityContext/allowPrivilegeEscalation", true]])
	fixtures.paths(found) == {sprintf("%s.containers[0].securityContext.allowPrivilegeEscalation", [_root])}
}

test_denies_what_is_not_said if {
	found := privilege_escalation.deny with input as fixtures.pod([["remove", "containers/0/securityContext", null]])
	count(found) == 1
}

test_leaves_windows_out if {
	count(privilege_escalation.deny) == 0 with input as fixtures.pod([["add", "os", {"name": "windows"}], ["remove", "containers/0/securityContext", null]])
	count(privilege_escalation.deny) > 0 with input as fixtures.pod([["add", "os", {"name": "linux"}], ["remove", "containers/0/securityContext", null]])
}
