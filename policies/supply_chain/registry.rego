# METADATA
# title: Images come from allowed registries
# description: parameters.supply_chain.allowedRegistries lists registries, or registries with a path, that images may come from; without it nothing is checked.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#supply_chain
# custom:
#   severity: high
#   remedy: Use an image from an allowed registry, or add the registry to parameters.supply_chain.allowedRegistries of the Gate.
package sluice.supply_chain.registry

_parameter := input.parameters.supply_chain.allowedRegistries

deny contains violation if {
	is_array(_parameter)
	some image in input.images
	not _allowed(image.repository)
	some location in image.locations
	violation := {
		"msg": sprintf("image %s is not from an allowed registry", [image.image]),
		"object": location.object,
		"path": location.path,
	}
}

deny contains violation if {
	parameter := _parameter
	not is_array(parameter)
	violation := {
		"msg": "parameters.supply_chain.allowedRegistries of the Gate is not a list",
		"remedy": "Write allowedRegistries in the Gate as a list of registries, such as [registry.example.com].",
	}
}

# A whole path segment has to match: registry.example.com is not registry.example.com.evil.org.
_allowed(repository) if {
	some prefix in _parameter
	startswith(repository, sprintf("%s/", [trim_right(prefix, "/")]))
}

_allowed(repository) if {
	some prefix in _parameter
	repository == prefix
}
