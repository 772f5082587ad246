package sluice.network.external_ips_test

import data.sluice.lib.fixtures
import data.sluice.network.external_ips

_service(spec) := fixtures.spoiled([["add", "children/-", {"kind": "Service", "metadata": {"name": "shop", "namespace": "store"}, "spec": spec}]])

test_allows_a_service_without if {
	count(external_ips.deny) == 0 with input as _service({})
}

test_denies_each_address if {
	found := external_ips.deny with input as _service({"externalIPs": ["192.0.2.1", "192.0.2.2"]})
	fixtures.paths(found) == {"spec.externalIPs[0]", "spec.externalIPs[1]"}
}
