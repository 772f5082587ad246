package house.owner_test

import data.house.owner

_workload(labels) := {"object": {"kind": "Workload", "metadata": {"name": "web", "labels": labels}}}

test_allows_an_owner if {
	count(owner.deny) == 0 with input as _workload({"owner": "shop"})
}

test_denies_no_owner if {
	count(owner.deny) == 1 with input as _workload({})
	count(owner.deny) == 1 with input as _workload({"owner": ""})
	count(owner.deny) == 1 with input as {"object": {"kind": "Workload", "metadata": {"name": "web"}}}
}

test_asks_only_of_workloads if {
	count(owner.deny) == 0 with input as {"object": {"kind": "Pod", "metadata": {"name": "web"}}}
}
