# METADATA
# title: An AppArmor profile stays on
# description: AppArmor confines a container to what its profile allows; only the runtime's profile and profiles of the node may take the place of it.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#baseline
# custom:
#   severity: high
#   remedy: Set securityContext.appArmorProfile.type to RuntimeDefault or Localhost, or remove it, and the container.apparmor.security.beta.kubernetes.io annotations with it.
package sluice.baseline.app_armor

import data.sluice.lib.pods

_confined := {"RuntimeDefault", "Localhost"}

_annotation := "container.apparmor.security.beta.kubernetes.io/"

deny contains violation if {
	some place in pods.places
	profile := place.spec.securityContext.appArmorProfile
	profile != null
	type := object.get(profile, "type", "")
	not type in _confined
	violation := pods.misset(place, "appArmorProfile.type", sprintf("has the AppArmor profile %q", [type]))
}

deny contains violation if {
	some pod in pods.all_pods
	some key, profile in pod.metadata.annotations
	startswith(key, _annotation)
	not _allowed(profile)
	violation := {
		"msg": sprintf("container %q has the AppArmor profile %q", [trim_prefix(key, _annotation), profile]),
		"object": pods.object_of(pod),
		"path": sprintf("%s.annotations[%q]", [pod.layout.metadata_path, key]),
	}
}

_allowed("")

_allowed("runtime/default")

_allowed(profile) if startswith(profile, "localhost/")
