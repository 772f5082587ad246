# METADATA
# title: Children carry the standard labels
# description: Selectors, dashboards and network policies find a child by app.kubernetes.io/name, and people see by managed-by why it comes back when they delete it.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#gitops
# custom:
#   severity: low
#   remedy: Set the label, or remove the patch that takes it away.
package sluice.gitops.labels

import data.sluice.lib.objects

_required := ["app.kubernetes.io/managed-by", "app.kubernetes.io/name"]

deny contains violation if {
	some child in input.children
	some label in _required
	object.get(child, ["metadata", "labels", label], "") == ""
	violation := {
		"msg": sprintf("label %s is missing", [label]),
		"object": objects.name(child),
		"path": sprintf("metadata.labels[%q]", [label]),
	}
}
