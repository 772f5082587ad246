package sluice.baseline.sysctls_test

import data.sluice.baseline.sysctls
import data.sluice.lib.fixtures

test_allows_safe_ones if {
	count(sysctls.deny) == 0 with input as fixtures.good
	count(sysctls.deny) == 0 with input as fixtures.pod([["add", "securityContext/sysctls", [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]]])
}

test_denies_others if {
	found := sysctls.deny with input as fixtures.pod([["add", "securityContext/sysctls", [{"name": "kernel.msgmax", "value": "1"}]]])
	fixtures.paths(found) == {"spec.template.spec.securityContext.sysctls[0]"}
}
