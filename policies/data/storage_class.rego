# METADATA
# title: Data is encrypted at rest
# description: parameters.data.encryptedStorageClasses lists the StorageClasses that encrypt. With it every claim has to name one of them; the default class of a cluster is not known here. Without it nothing is checked.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#data
# custom:
#   severity: high
#   remedy: Set spec.storage.className of the Workload to a class of parameters.data.encryptedStorageClasses of the Gate.
package sluice.data.storage_class

import data.sluice.lib.objects
import data.sluice.lib.pods

_encrypted := input.parameters.data.encryptedStorageClasses

deny contains violation if {
	some claim in _claims
	not claim.class in _encrypted
	violation := {
		"msg": sprintf("storage class %q is not one of those that encrypt", [claim.class]),
		"object": claim.object,
		"path": claim.path,
	}
}

_claims contains claim if {
	some child in input.children
	some i, template in object.get(child, ["spec", "volumeClaimTemplates"], [])
	claim := {
		"object": objects.name(child),
		"path": sprintf("spec.volumeClaimTemplates[%v].spec.storageClassName", [i]),
		"class": object.get(template, ["spec", "storageClassName"], ""),
	}
}

_claims contains claim if {
	some child in input.children
	child.kind == "PersistentVolumeClaim"
	claim := {
		"object": objects.name(child),
		"path": "spec.storageClassName",
		"class": object.get(child, ["spec", "storageClassName"], ""),
	}
}

_claims contains claim if {
	some pod in pods.all_pods
	some i, volume in object.get(pod.spec, "volumes", [])
	template := volume.ephemeral.volumeClaimTemplate
	claim := {
		"object": pods.object_of(pod),
		"path": sprintf("%s.volumes[%v].ephemeral.volumeClaimTemplate.spec.storageClassName", [pods.path_of(pod), i]),
		"class": object.get(template, ["spec", "storageClassName"], ""),
	}
}
