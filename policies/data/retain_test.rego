package sluice.data.retain_test

import data.sluice.data.retain
import data.sluice.lib.fixtures

_set(policy) := ["add", "children/-", {"kind": "StatefulSet", "metadata": {"name": "db", "namespace": "store"}, "spec": {"persistentVolumeClaimRetentionPolicy": policy}}]

test_allows_claims_that_are_kept if {
	count(retain.deny) == 0 with input as fixtures.good
	count(retain.deny) == 0 with input as fixtures.spoiled([_set({"whenDeleted": "Retain", "whenScaled": "Retain"})])
	count(retain.deny) == 0 with input as fixtures.spoiled([_set({})])
}

test_denies_claims_that_go if {
	found := retain.deny with input as fixtures.spoiled([_set({"whenDeleted": "Delete", "whenScaled": "Delete"})])
	fixtures.paths(found) == {"spec.persistentVolumeClaimRetentionPolicy.whenDeleted", "spec.persistentVolumeClaimRetentionPolicy.whenScaled"}
}

test_asks_for_nothing_in_other_environments if {
	count(retain.deny) == 0 with input as fixtures.spoiled([_set({"whenDeleted": "Delete"}), ["replace", "environment", "dev"]])
}
