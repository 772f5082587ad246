# METADATA
# title: Volumes do not reach the node
# description: A hostPath volume gives the pod files of the node, and so the node.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#baseline
# custom:
#   severity: critical
#   remedy: Use a persistentVolumeClaim, emptyDir, configMap, secret or another volume that is not a path of the node.
package sluice.baseline.volume_types

import data.sluice.lib.pods

deny contains violation if {
	some pod in pods.all_pods
	some i, volume in pod.spec.volumes
	volume.hostPath != null
	violation := {
		"msg": sprintf("volume %q is a path of the node", [object.get(volume, "name", "")]),
		"object": pods.object_of(pod),
		"path": sprintf("%s.volumes[%v].hostPath", [pods.path_of(pod), i]),
	}
}
