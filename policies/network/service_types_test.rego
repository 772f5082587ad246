package sluice.network.service_types_test

import data.sluice.lib.fixtures
import data.sluice.network.service_types

_service(spec) := fixtures.spoiled([["add", "children/-", {"kind": "Service", "metadata": {"name": "shop", "namespace": "store"}, "spec": spec}]])

test_allows_cluster_ip if {
	count(service_types.deny) == 0 with input as _service({})
	count(service_types.deny) == 0 with input as _service({"type": "ClusterIP"})
}

test_denies_other_types if {
	every type in ["NodePort", "LoadBalancer", "ExternalName"] {
		found := service_types.deny with input as _service({"type": type})
		fixtures.objects(found) == {"Service/store/shop"}
	}
}

test_allows_those_of_the_parameter if {
	changed := json.patch(_service({"type": "LoadBalancer"}), [{"op": "add", "path": "parameters/network", "value": {"allowedServiceTypes": ["ClusterIP", "LoadBalancer"]}}])
	count(service_types.deny) == 0 with input as changed
}
