# METADATA
# title: Children stay in their namespace
# description: A child that a patch moves into another namespace escapes the Gate and the quota of its own.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#gitops
# custom:
#   severity: critical
#   remedy: Remove metadata.namespace from the patch.
package sluice.gitops.namespace

import data.sluice.lib.objects

deny contains violation if {
	some child in input.children
	namespace := object.get(child, ["metadata", "namespace"], "")
	namespace != input.namespace.name
	violation := {
		"msg": sprintf("the object is in namespace %q and its Workload in %q", [namespace, input.namespace.name]),
		"object": objects.name(child),
		"path": "metadata.namespace",
	}
}
