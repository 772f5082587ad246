# METADATA
# title: Pods are behind a NetworkPolicy
# description: Pods that no NetworkPolicy for ingress selects take connections from the whole cluster. Only Workloads are looked at, which bring theirs along.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#network
# custom:
#   severity: high
#   remedy: Remove the patch that takes the NetworkPolicy away or changes its selector or the labels of the pods.
package sluice.network.network_policy

import data.sluice.lib.labels
import data.sluice.lib.pods

deny contains violation if {
	input.workload.kind
	some pod in pods.all_pods
	not _selected(object.get(pod.metadata, "labels", {}))
	violation := {
		"msg": "no NetworkPolicy for ingress selects the pods",
		"object": pods.object_of(pod),
		"path": sprintf("%s.labels", [pod.layout.metadata_path]),
	}
}

_selected(pod_labels) if {
	some child in input.children
	child.kind == "NetworkPolicy"
	labels.selects(object.get(child, ["spec", "podSelector"], null), pod_labels)
	"Ingress" in object.get(child, ["spec", "policyTypes"], ["Ingress"])
}
