# METADATA
# title: Nobody becomes cluster admin
# description: A binding to cluster-admin, or to the group system:masters, makes whoever controls the workload the owner of the cluster.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#gitops
# custom:
#   severity: critical
#   remedy: Bind a Role that has the rights that are needed and no others.
package sluice.gitops.cluster_admin

import data.sluice.lib.objects

_bindings := {"ClusterRoleBinding", "RoleBinding"}

deny contains violation if {
	some child in input.children
	child.kind in _bindings
	object.get(child, ["roleRef", "name"], "") == "cluster-admin"
	violation := {"msg": "the binding gives cluster-admin", "object": objects.name(child), "path": "roleRef.name"}
}

deny contains violation if {
	some child in input.children
	child.kind in _bindings
	some i, subject in object.get(child, "subjects", [])
	subject.kind == "Group"
	subject.name == "system:masters"
	violation := {"msg": "the binding is for system:masters", "object": objects.name(child), "path": sprintf("subjects[%v].name", [i])}
}
