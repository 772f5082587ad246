package sluice.reliability.min_replicas_test

import data.sluice.lib.fixtures
import data.sluice.reliability.min_replicas

_asking(n) := [["add", "parameters/reliability", {"minReplicas": n}]]

test_allows_without_parameter if {
	count(min_replicas.deny) == 0 with input as fixtures.spoiled([["replace", "children/0/spec/replicas", 1]])
}

test_allows_exactly_enough if {
	count(min_replicas.deny) == 0 with input as fixtures.spoiled(_asking(3))
}

test_denies_too_few if {
	found := min_replicas.deny with input as fixtures.spoiled(_asking(4))
	found == {{"msg": "3 replicas, at least 4 are asked for", "object": "Deployment/store/shop", "path": "spec.replicas"}}
}

test_denies_replicas_that_are_not_said if {
	found := min_replicas.deny with input as fixtures.spoiled(array.concat(_asking(2), [["remove", "children/0/spec/replicas", null]]))
	fixtures.paths(found) == {"spec.replicas"}
}

test_denies_a_parameter_that_is_no_number if {
	found := min_replicas.deny with input as fixtures.spoiled(_asking("2"))
	count(found) == 1
}
