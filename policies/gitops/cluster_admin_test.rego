package sluice.gitops.cluster_admin_test

import data.sluice.gitops.cluster_admin
import data.sluice.lib.fixtures

_binding(kind, role, group) := fixtures.spoiled([["add", "children/-", {
	"kind": kind, "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": role},
	"subjects": [{"kind": "Group", "name": group}],
}]])

test_allows_other_roles if {
	count(cluster_admin.deny) == 0 with input as fixtures.good
	count(cluster_admin.deny) == 0 with input as _binding("RoleBinding", "view", "devs")
}

test_denies_cluster_admin if {
	every kind in ["ClusterRoleBinding", "RoleBinding"] {
		found := cluster_admin.deny with input as _binding(kind, "cluster-admin", "devs")
		fixtures.paths(found) == {"roleRef.name"}
	}
}

test_denies_the_masters if {
	found := cluster_admin.deny with input as _binding("ClusterRoleBinding", "view", "system:masters")
	fixtures.paths(found) == {"subjects[0].name"}
}
