package sluice.data.storage_class_test

import data.sluice.data.storage_class
import data.sluice.lib.fixtures

_classes := ["add", "parameters/data", {"encryptedStorageClasses": ["gold"]}]

_template(spec) := ["add", "children/0/spec/volumeClaimTemplates", [{"metadata": {"name": "data"}, "spec": spec}]]

test_asks_for_nothing_without_the_parameter if {
	count(storage_class.deny) == 0 with input as fixtures.spoiled([_template({})])
}

test_allows_an_encrypted_class if {
	count(storage_class.deny) == 0 with input as fixtures.spoiled([_classes, _template({"storageClassName": "gold"})])
}

test_denies_other_classes_and_the_default if {
	every spec in [{}, {"storageClassName": "silver"}] {
		found := storage_class.deny with input as fixtures.spoiled([_classes, _template(spec)])
		fixtures.paths(found) == {"spec.volumeClaimTemplates[0].spec.storageClassName"}
	}
}

test_looks_at_claims_and_ephemeral_volumes if {
	found := storage_class.deny with input as fixtures.spoiled([
		_classes,
		["add", "children/-", {"kind": "PersistentVolumeClaim", "metadata": {"name": "x", "namespace": "store"}, "spec": {}}],
		["add", "children/0/spec/template/spec/volumes/-", {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
	])
	fixtures.objects(found) == {"PersistentVolumeClaim/store/x", "Deployment/store/shop"}
}
