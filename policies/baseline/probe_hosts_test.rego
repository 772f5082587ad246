package sluice.baseline.probe_hosts_test

import data.sluice.baseline.probe_hosts
import data.sluice.lib.fixtures

_root := "spec.template.spec"

test_allows_probes_of_the_pod if {
	count(probe_hosts.deny) == 0 with input as fixtures.good
}

test_denies_a_probe_of_another_host if {
	found := probe_hosts.deny with input as fixtures.pod([["add", "containers/0/readinessProbe/httpGet/host", "169.254.169.254"]])
	fixtures.paths(found) == {sprintf("%s.containers[0].readinessProbe.httpGet.host", [_root])}
}

test_denies_a_hook_of_another_host if {
	hook := {"preStop": {"tcpSocket": {"host": "node", "port": 22}}}
	found := probe_hosts.deny with input as fixtures.pod([["add", "containers/0/lifecycle", hook]])
	fixtures.paths(found) == {sprintf("%s.containers[0].lifecycle.preStop.tcpSocket.host", [_root])}
}
