package sluice.tenancy.service_names_test

import data.sluice.lib.fixtures
import data.sluice.tenancy.service_names

_env(value) := fixtures.pod([["add", "containers/0/env/-", {"name": "DB", "value": value}]])

test_allows_own_services_and_other_hosts if {
	count(service_names.deny) == 0 with input as fixtures.good
	every value in ["db.store.svc:5432", "http://a.b.store.svc.cluster.local/x", "db", "www.svc.example.com", "x.svcs"] {
		count(service_names.deny) == 0 with input as _env(value)
	}
}

test_denies_services_of_others if {
	every value in ["db.other.svc", "postgres://u@db.other.svc.cluster.local:5432/x", "a.store.svc,b.other.svc"] {
		found := service_names.deny with input as _env(value)
		fixtures.paths(found) == {"spec.template.spec.containers[0].env[1].value"}
	}
}

test_looks_into_arguments_and_config_maps if {
	found := service_names.deny with input as fixtures.spoiled([
		["add", "children/0/spec/template/spec/containers/0/args", ["--db=db.other.svc"]],
		["add", "children/2/data/shop.conf", "db = db.other.svc"],
	])
	fixtures.paths(found) == {"spec.template.spec.containers[0].args[0]", `data["shop.conf"]`}
}

test_allows_shared_namespaces if {
	changed := json.patch(_env("dns.kube-system.svc"), [{"op": "add", "path": "parameters/tenancy", "value": {"sharedNamespaces": ["kube-system"]}}])
	count(service_names.deny) == 0 with input as changed
}
