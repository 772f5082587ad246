package sluice.tenancy.tenant_test

import data.sluice.lib.fixtures
import data.sluice.tenancy.tenant

test_allows_what_has_no_tenants if {
	count(tenant.deny) == 0 with input as fixtures.good
}

test_allows_the_same_tenant if {
	count(tenant.deny) == 0 with input as fixtures.spoiled([["add", "workload/spec/tenant", "red"], ["add", "namespace/labels/sluice.dev~1tenant", "red"]])
}

test_denies_another_tenant if {
	found := tenant.deny with input as fixtures.spoiled([["add", "workload/spec/tenant", "blue"], ["add", "namespace/labels/sluice.dev~1tenant", "red"]])
	fixtures.paths(found) == {"spec.tenant"}
}

test_denies_a_tenant_on_one_side_only if {
	count(tenant.deny) == 1 with input as fixtures.spoiled([["add", "workload/spec/tenant", "blue"]])
	count(tenant.deny) == 1 with input as fixtures.spoiled([["add", "namespace/labels/sluice.dev~1tenant", "red"]])
}

test_reads_another_label if {
	count(tenant.deny) == 0 with input as fixtures.spoiled([
		["add", "parameters/tenancy", {"namespaceLabel": "team"}],
		["add", "workload/spec/tenant", "red"],
		["add", "namespace/labels/team", "red"],
	])
}

test_denies_a_namespace_of_nobody_where_a_tenant_is_required if {
	count(tenant.deny) == 1 with input as fixtures.spoiled([["add", "parameters/tenancy", {"requireTenant": true}]])
}
