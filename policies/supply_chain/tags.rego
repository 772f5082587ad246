# METADATA
# title: Tags follow the rules
# description: A tag that says nothing about a version cannot be traced to what it was built from. parameters.supply_chain.tagPattern is what a whole tag has to match; without it nothing is checked.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#supply_chain
# custom:
#   severity: medium
#   remedy: Tag the image as parameters.supply_chain.tagPattern of the Gate asks for.
package sluice.supply_chain.tags

_pattern := input.parameters.supply_chain.tagPattern

deny contains violation if {
	some image in input.images
	image.tag != ""
	not regex.match(sprintf("^(?:%s)$", [_pattern]), image.tag)
	some location in image.locations
	violation := {
		"msg": sprintf("tag %q of image %s does not match %s", [image.tag, image.image, _pattern]),
		"object": location.object,
		"path": location.path,
	}
}
