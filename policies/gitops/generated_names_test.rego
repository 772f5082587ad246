package sluice.gitops.generated_names_test

import data.sluice.gitops.generated_names
import data.sluice.lib.fixtures

test_allows_names if {
	count(generated_names.deny) == 0 with input as fixtures.good
}

test_denies_generated_names if {
	found := generated_names.deny with input as fixtures.spoiled([["add", "children/0/metadata/generateName", "shop-"], ["add", "object/metadata/generateName", "shop-"]])
	fixtures.objects(found) == {"Deployment/store/shop", "Workload/store/shop"}
}

test_leaves_pods_of_controllers_alone if {
	count(generated_names.deny) == 0 with input as fixtures.spoiled([
		["add", "children/0/metadata/generateName", "shop-"],
		["add", "children/0/metadata/ownerReferences", [{"kind": "Deployment", "name": "shop"}]],
	])
}
