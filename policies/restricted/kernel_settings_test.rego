package sluice.restricted.kernel_settings_test

import data.sluice.lib.fixtures
import data.sluice.restricted.kernel_settings

_root := "spec.template.spec"

test_allows_the_defaults if {
	count(kernel_settings.deny) == 0 with input as fixtures.good
}

test_allows_safe_values if {
	count(kernel_settings.deny) == 0 with input as fixtures.pod([
		["add", "containers/0/securityContext/procMount", "Default"],
		["add", "securityContext/appArmorProfile", {"type": "RuntimeDefault"}],
		["add", "securityContext/seLinuxOptions", {"type": "container_t"}],
		["add", "securityContext/sysctls", [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]],
	])
}

test_denies_each_weakening if {
	found := kernel_settings.deny with input as fixtures.pod([
		["remove", "initContainers", null],
		["add", "containers/0/securityContext/procMount", "Unmasked"],
		["add", "securityContext/appArmorProfile", {"type": "Unconfined"}],
		["add", "securityContext/seLinuxOptions", {"type": "spc_t", "user": "root"}],
		["add", "securityContext/sysctls", [{"name": "kernel.msgmax", "value": "1"}]],
	])
	fixtures.paths(found) == {
		sprintf("%s.containers[0].securityContext.procMount", [_root]),
		sprintf("%s.containers[0].securityContext.appArmorProfile.type", [_root]),
		sprintf("%s.containers[0].securityContext.seLinuxOptions.type", [_root]),
		sprintf("%s.containers[0].securityContext.seLinuxOptions.user", [_root]),
		sprintf("%s.securityContext.sysctls[0]", [_root]),
	}
}
