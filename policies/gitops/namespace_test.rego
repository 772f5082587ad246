package sluice.gitops.namespace_test

import data.sluice.gitops.namespace
import data.sluice.lib.fixtures

test_allows_the_namespace_of_the_workload if {
	count(namespace.deny) == 0 with input as fixtures.good
}

test_denies_another_namespace if {
	found := namespace.deny with input as fixtures.spoiled([["replace", "children/0/metadata/namespace", "kube-system"]])
	fixtures.objects(found) == {"Deployment/kube-system/shop"}
}

test_denies_a_child_without_namespace if {
	found := namespace.deny with input as fixtures.spoiled([["remove", "children/0/metadata/namespace", null]])
	fixtures.objects(found) == {"Deployment/shop"}
}
