package sluice.network.network_policy_test

import data.sluice.lib.fixtures
import data.sluice.network.network_policy

test_allows_pods_that_are_selected if {
	count(network_policy.deny) == 0 with input as fixtures.good
}

test_denies_pods_that_are_not if {
	found := network_policy.deny with input as fixtures.spoiled([["replace", "children/4/spec/podSelector", {"matchLabels": {"app.kubernetes.io/name": "other"}}]])
	fixtures.objects(found) == {"Deployment/store/shop", "CronJob/store/shop"}
}

test_denies_a_policy_for_egress_alone if {
	count(network_policy.deny) == 2 with input as fixtures.spoiled([["replace", "children/4/spec/policyTypes", ["Egress"]]])
}

test_leaves_a_deployment_by_itself_alone if {
	count(network_policy.deny) == 0 with input as fixtures.spoiled([["remove", "children/4", null], ["replace", "workload", {}]])
}
