# METADATA
# title: Host namespaces are not shared
# description: A pod in the host's network, process or IPC namespace sees and reaches what belongs to the node and other pods.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#baseline
# custom:
#   severity: critical
#   remedy: Remove hostNetwork, hostPID and hostIPC from the pod.
package sluice.baseline.host_namespaces

import data.sluice.lib.pods

deny contains violation if {
	some pod in pods.all_pods
	some field in ["hostIPC", "hostNetwork", "hostPID"]
	pod.spec[field] == true
	violation := {
		"msg": sprintf("the pod shares the node's namespace by %s", [field]),
		"object": pods.object_of(pod),
		"path": sprintf("%s.%s", [pods.path_of(pod), field]),
	}
}
