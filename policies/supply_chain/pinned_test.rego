package sluice.supply_chain.pinned_test

import data.sluice.lib.fixtures
import data.sluice.supply_chain.pinned

test_asks_for_nothing_without_the_parameter if {
	count(pinned.deny) == 0 with input as fixtures.good
}

test_denies_a_tag if {
	found := pinned.deny with input as fixtures.spoiled([["add", "parameters/supply_chain", {"requireDigest": true}]])
	fixtures.paths(found) == {"spec.template.spec.containers[0].image"}
}

test_allows_a_digest if {
	count(pinned.deny) == 0 with input as fixtures.spoiled([
		["add", "parameters/supply_chain", {"requireDigest": true}],
		["replace", "images/0/pinned", true],
	])
}
