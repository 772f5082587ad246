package sluice.supply_chain.registry_test

import data.sluice.lib.fixtures
import data.sluice.supply_chain.registry

_root := "spec.template.spec"

_allowing(list) := [["add", "parameters/supply_chain", {"allowedRegistries": list}]]

test_allows_everything_without_parameter if {
	count(registry.deny) == 0 with input as fixtures.good
}

test_allows_what_is_listed if {
	every list in [["registry.example.com"], ["registry.example.com/"], ["other.example.com", "registry.example.com/shop"]] {
		count(registry.deny) == 0 with input as fixtures.spoiled(_allowing(list))
	}
}

test_denies_what_only_begins_alike if {
	every list in [["registry.example"], ["registry.example.com/sh"], []] {
		found := registry.deny with input as fixtures.spoiled(_allowing(list))
		fixtures.paths(found) == {sprintf("%s.containers[0].image", [_root])}
	}
}

test_denies_a_parameter_that_is_no_list if {
	found := registry.deny with input as fixtures.spoiled(_allowing("registry.example.com"))
	count(found) == 1
}
