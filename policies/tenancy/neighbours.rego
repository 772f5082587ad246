# METADATA
# title: Workloads use their own namespace
# description: A dependency on, or a Secret of, another namespace ties two tenants together. parameters.tenancy.sharedNamespaces names those that everyone may use.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#tenancy
# custom:
#   severity: high
#   remedy: Use what is in the Workload's own namespace, or add the other one to parameters.tenancy.sharedNamespaces of the Gate.
package sluice.tenancy.neighbours

_shared := object.get(input.parameters, ["tenancy", "sharedNamespaces"], [])

deny contains violation if {
	some field in ["dependsOn", "secrets"]
	some i, reference in input.workload.spec[field]
	namespace := object.get(reference, "namespace", "")
	not namespace in {"", input.namespace.name}
	not namespace in _shared
	violation := {
		"msg": sprintf("%s of the Workload names %s in namespace %s", [field, object.get(reference, "name", ""), namespace]),
		"path": sprintf("spec.%s[%v].namespace", [field, i]),
	}
}
