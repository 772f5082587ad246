# METADATA
# title: Volumes do not reach the node
# description: A hostPath volume gives the pod files of the node; volume types outside the restricted list bypass storage classes and their rights.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#restricted
# custom:
#   severity: critical
#   remedy: Use a persistentVolumeClaim, emptyDir, configMap, secret, projected, downwardAPI, csi, ephemeral or image volume.
package sluice.restricted.volume_types

import data.sluice.lib.pods

deny contains violation if {
	some pod in pods.all_pods
	some i, volume in pod.spec.volumes
	some type, source in volume
	not type in {
		"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image",
		"name", "persistentVolumeClaim", "projected", "secret",
	}
	source != null
	violation := {
		"msg": sprintf("volume %q is of type %v", [object.get(volume, "name", ""), type]),
		"object": pods.object_of(pod),
		"path": sprintf("%s.volumes[%v].%v", [pods.path_of(pod), i, type]),
	}
}
