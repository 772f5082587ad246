package sluice.reliability.disruption_budget_test

import data.sluice.lib.fixtures
import data.sluice.reliability.disruption_budget

_budget := "children/3/spec"

test_allows_a_budget_that_selects_the_pods if {
	count(disruption_budget.deny) == 0 with input as fixtures.good
}

test_denies_a_budget_that_selects_others if {
	found := disruption_budget.deny with input as fixtures.spoiled([["replace", "children/3/spec/selector/matchLabels", {"app.kubernetes.io/name": "other"}]])
	fixtures.objects(found) == {"Deployment/store/shop"}
}

test_denies_a_budget_that_never_lets_go if {
	every change in [{"maxUnavailable": 0}, {"maxUnavailable": "0%"}, {"minAvailable": 3}, {"minAvailable": "100%"}] {
		spec := object.union(change, {"selector": {}})
		found := disruption_budget.deny with input as fixtures.spoiled([["replace", _budget, spec]])
		fixtures.objects(found) == {"PodDisruptionBudget/store/shop"}
	}
}

test_asks_nothing_of_one_replica_or_of_other_environments if {
	without := ["remove", "children/3", null]
	count(disruption_budget.deny) == 0 with input as fixtures.spoiled([without, ["replace", "children/0/spec/replicas", 1]])
	count(disruption_budget.deny) == 0 with input as fixtures.spoiled([without, ["replace", "environment", "dev"]])
	count(disruption_budget.deny) == 1 with input as fixtures.spoiled([without, ["replace", "environment", "dev"], ["add", "parameters/reliability", {"criticalEnvironments": ["dev"]}]])
}

test_asks_no_budget_of_a_deployment_by_itself if {
	count(disruption_budget.deny) == 0 with input as fixtures.spoiled([["remove", "children/3", null], ["replace", "workload", {}]])
}
