package sluice.reliability.readiness_probe_test

import data.sluice.lib.fixtures
import data.sluice.reliability.readiness_probe

_root := "spec.template.spec"

test_is_silent_with_a_probe if {
	count(readiness_probe.warn) == 0 with input as fixtures.good
}

test_warns_without_one if {
	found := readiness_probe.warn with input as fixtures.pod([["remove", "containers/0/readinessProbe", null]])
	fixtures.paths(found) == {sprintf("%s.containers[0].readinessProbe", [_root])}
}

test_is_silent_without_ports if {
	count(readiness_probe.warn) == 0 with input as fixtures.pod([
		["remove", "containers/0/readinessProbe", null],
		["remove", "containers/0/ports", null],
	])
}
