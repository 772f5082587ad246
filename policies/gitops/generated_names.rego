# METADATA
# title: Names come from Git
# description: An object whose name the API server makes up is another one at each sync, and nothing in Git names it. What a controller owns is left out.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#gitops
# custom:
#   severity: high
#   remedy: Write metadata.name and remove metadata.generateName.
package sluice.gitops.generated_names

import data.sluice.lib.objects

deny contains violation if {
	some judged in array.concat([input.object], input.children)
	object.get(judged, ["metadata", "generateName"], "") != ""
	count(object.get(judged, ["metadata", "ownerReferences"], [])) == 0
	violation := {
		"msg": "the API server makes up the name",
		"object": objects.name(judged),
		"path": "metadata.generateName",
	}
}
