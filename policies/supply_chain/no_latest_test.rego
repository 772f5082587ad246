package sluice.supply_chain.no_latest_test

import data.sluice.lib.fixtures
import data.sluice.supply_chain.no_latest

_root := "spec.template.spec"

test_allows_a_version if {
	count(no_latest.deny) == 0 with input as fixtures.good
}

test_denies_latest_and_no_tag if {
	every tag in ["latest", ""] {
		found := no_latest.deny with input as fixtures.spoiled([["replace", "images/0/tag", tag]])
		fixtures.paths(found) == {sprintf("%s.containers[0].image", [_root])}
		fixtures.objects(found) == {"Deployment/store/shop"}
	}
}

test_allows_a_digest_without_tag if {
	count(no_latest.deny) == 0 with input as fixtures.spoiled([["replace", "images/0/tag", ""], ["replace", "images/0/pinned", true]])
}

test_denies_tags_of_the_parameter if {
	found := no_latest.deny with input as fixtures.spoiled([
		["replace", "images/0/tag", "main"],
		["add", "parameters/supply_chain", {"floatingTags": ["main"]}],
	])
	count(found) == 1
}
