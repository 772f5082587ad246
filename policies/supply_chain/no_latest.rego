# METADATA
# title: Images do not float
# description: The tag latest, or no tag at all, means another image tomorrow; nobody can say what ran or roll back to it. parameters.supply_chain.floatingTags names further tags that move, such as main.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#supply_chain
# custom:
#   severity: high
#   remedy: Name a version tag or, better, a digest.
package sluice.supply_chain.no_latest

_floating := {"", "latest"} | {tag | some tag in object.get(input.parameters, ["supply_chain", "floatingTags"], [])}

deny contains violation if {
	some image in input.images
	image.repository != ""
	not image.pinned
	image.tag in _floating
	some location in image.locations
	violation := {
		"msg": sprintf("image %s has no version", [image.image]),
		"object": location.object,
		"path": location.path,
	}
}
