package sluice.network.host_ports_test

import data.sluice.lib.fixtures
import data.sluice.network.host_ports

_port := ["add", "containers/0/ports/0/hostPort", 9100]

test_allows_container_ports if {
	count(host_ports.deny) == 0 with input as fixtures.good
}

test_denies_a_host_port if {
	found := host_ports.deny with input as fixtures.pod([_port])
	fixtures.paths(found) == {"spec.template.spec.containers[0].ports[0].hostPort"}
}

test_allows_those_of_the_parameter if {
	changed := json.patch(fixtures.pod([_port]), [{"op": "add", "path": "parameters/network", "value": {"allowedHostPorts": [9100]}}])
	count(host_ports.deny) == 0 with input as changed
}
