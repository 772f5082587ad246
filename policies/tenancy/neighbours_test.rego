package sluice.tenancy.neighbours_test

import data.sluice.lib.fixtures
import data.sluice.tenancy.neighbours

_references := [
	["add", "workload/spec/dependsOn", [{"name": "db"}, {"name": "cache", "namespace": "other"}]],
	["add", "workload/spec/secrets", [{"name": "own", "namespace": "store"}, {"name": "key", "namespace": "vault"}]],
]

test_allows_the_own_namespace if {
	count(neighbours.deny) == 0 with input as fixtures.good
}

test_denies_others if {
	found := neighbours.deny with input as fixtures.spoiled(_references)
	fixtures.paths(found) == {"spec.dependsOn[1].namespace", "spec.secrets[1].namespace"}
}

test_allows_shared_ones if {
	found := neighbours.deny with input as fixtures.spoiled(array.concat(_references, [["add", "parameters/tenancy", {"sharedNamespaces": ["vault"]}]]))
	fixtures.paths(found) == {"spec.dependsOn[1].namespace"}
}
