# METADATA
# title: Children are not claimed by Argo CD
# description: Argo CD takes an object with its tracking label or annotation for its own, finds it nowhere in Git and prunes it.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#gitops
# custom:
#   severity: high
#   remedy: Remove the argocd.argoproj.io tracking label and annotation from the patch.
package sluice.gitops.tracking

import data.sluice.lib.objects

_claims := [["labels", "argocd.argoproj.io/instance"], ["annotations", "argocd.argoproj.io/tracking-id"]]

deny contains violation if {
	some child in input.children
	some claim in _claims
	object.get(child, array.concat(["metadata"], claim), null) != null
	violation := {
		"msg": sprintf("the object is tracked by Argo CD through %s", [claim[1]]),
		"object": objects.name(child),
		"path": sprintf("metadata.%s[%q]", claim),
	}
}
