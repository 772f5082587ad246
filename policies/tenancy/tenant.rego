# METADATA
# title: Workloads stay with their tenant
# description: The tenant of a Workload has to be that of its namespace, which the label sluice.dev/tenant or the one in parameters.tenancy.namespaceLabel tells. With parameters.tenancy.requireTenant both have to say one.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#tenancy
# custom:
#   severity: critical
#   remedy: Set spec.tenant of the Workload to the tenant of its namespace, or deploy it to a namespace of its tenant.
package sluice.tenancy.tenant

_label := object.get(input.parameters, ["tenancy", "namespaceLabel"], "sluice.dev/tenant")

_owner := object.get(input.namespace.labels, _label, "")

deny contains violation if {
	input.workload.kind
	tenant := object.get(input.workload, ["spec", "tenant"], "")
	_owner != tenant
	violation := {
		"msg": sprintf("the Workload is of %s and its namespace of %s", [_named(tenant), _named(_owner)]),
		"path": "spec.tenant",
	}
}

deny contains violation if {
	input.parameters.tenancy.requireTenant == true
	_owner == ""
	violation := {
		"msg": sprintf("namespace %s has no label %s", [input.namespace.name, _label]),
		"remedy": "Have whoever owns the namespace label it.",
	}
}

_named("") := "no tenant"

_named(tenant) := sprintf("tenant %s", [tenant]) if tenant != ""
