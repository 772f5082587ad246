package sluice.reliability.topology_spread_test

import data.sluice.lib.fixtures
import data.sluice.reliability.topology_spread

_constraints := "children/0/spec/template/spec/topologySpreadConstraints"

test_allows_replicas_that_are_spread if {
	count(topology_spread.deny) == 0 with input as fixtures.good
}

test_allows_anti_affinity if {
	count(topology_spread.deny) == 0 with input as fixtures.spoiled([
		["remove", _constraints, null],
		["add", "children/0/spec/template/spec/affinity", {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}],
	])
}

test_denies_replicas_that_are_not if {
	found := topology_spread.deny with input as fixtures.spoiled([["remove", _constraints, null]])
	fixtures.paths(found) == {"spec.template.spec.topologySpreadConstraints"}
}

test_asks_nothing_of_one_replica_or_of_other_environments if {
	count(topology_spread.deny) == 0 with input as fixtures.spoiled([["remove", _constraints, null], ["replace", "children/0/spec/replicas", 1]])
	count(topology_spread.deny) == 0 with input as fixtures.spoiled([["remove", _constraints, null], ["replace", "environment", "dev"]])
}
