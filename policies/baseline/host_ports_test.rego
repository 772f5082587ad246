package sluice.baseline.host_ports_test

import data.sluice.baseline.host_ports
import data.sluice.lib.fixtures

_root := "spec.template.spec"

test_allows_container_ports if {
	count(host_ports.deny) == 0 with input as fixtures.good
}

test_denies_a_host_port if {
	found := host_ports.deny with input as fixtures.pod([["add", "containers/0/ports/0/hostPort", 80]])
	fixtures.paths(found) == {sprintf("%s.containers[0].ports[0].hostPort", [_root])}
}
