package sluice.supply_chain.tags_test

import data.sluice.lib.fixtures
import data.sluice.supply_chain.tags

test_asks_for_nothing_without_the_parameter if {
	count(tags.deny) == 0 with input as fixtures.good
}

test_allows_a_tag_that_matches if {
	count(tags.deny) == 0 with input as fixtures.spoiled([["add", "parameters/supply_chain", {"tagPattern": `[0-9]+\.[0-9]+\.[0-9]+`}]])
}

test_denies_a_tag_of_which_a_part_matches if {
	found := tags.deny with input as fixtures.spoiled([["add", "parameters/supply_chain", {"tagPattern": `a|1\.0`}]])
	fixtures.paths(found) == {"spec.template.spec.containers[0].image"}
}

test_leaves_a_digest_without_tag_alone if {
	count(tags.deny) == 0 with input as fixtures.spoiled([
		["add", "parameters/supply_chain", {"tagPattern": "x"}],
		["replace", "images/0/tag", ""],
	])
}
