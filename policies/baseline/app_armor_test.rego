package sluice.baseline.app_armor_test

import data.sluice.baseline.app_armor
import data.sluice.lib.fixtures

_annotations := "children/0/spec/template/metadata"

test_allows_what_is_not_said if {
	count(app_armor.deny) == 0 with input as fixtures.good
}

test_allows_profiles_of_runtime_and_node if {
	count(app_armor.deny) == 0 with input as fixtures.pod([
		["add", "securityContext/appArmorProfile", {"type": "RuntimeDefault"}],
		["add", "containers/0/securityContext/appArmorProfile", {"type": "Localhost", "localhostProfile": "shop"}],
	])
}

test_denies_other_profiles if {
	found := app_armor.deny with input as fixtures.pod([
		["add", "securityContext/appArmorProfile", {"type": "Unconfined"}],
		["add", "initContainers/0/securityContext/appArmorProfile", {}],
	])
	fixtures.paths(found) == {
		"spec.template.spec.securityContext.appArmorProfile.type",
		"spec.template.spec.initContainers[0].securityContext.appArmorProfile.type",
	}
}

test_reads_the_annotations_of_old_clusters if {
	found := app_armor.deny with input as fixtures.spoiled([["add", _annotations, {"annotations": {
		"container.apparmor.security.beta.kubernetes.io/main": "unconfined",
		"container.apparmor.security.beta.kubernetes.io/init": "localhost/shop",
		"container.apparmor.security.beta.kubernetes.io/debug": "runtime/default",
		"container.apparmor.security.beta.kubernetes.io/none": "",
		"example.com/main": "unconfined",
	}}]])
	fixtures.paths(found) == {`spec.template.metadata.annotations["container.apparmor.security.beta.kubernetes.io/main"]`}
}
