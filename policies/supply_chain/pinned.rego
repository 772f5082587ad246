# METADATA
# title: Images are named by digest
# description: A tag may name another image tomorrow; a digest is what was built and tested. Asked for where parameters.supply_chain.requireDigest is true.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#supply_chain
# custom:
#   severity: high
#   remedy: Write the image with its digest, as name:tag@sha256:….
package sluice.supply_chain.pinned

deny contains violation if {
	object.get(input.parameters, ["supply_chain", "requireDigest"], false) == true
	some image in input.images
	not image.pinned
	some location in image.locations
	violation := {
		"msg": sprintf("image %s is named by tag alone", [image.image]),
		"object": location.object,
		"path": location.path,
	}
}
