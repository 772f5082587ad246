# METADATA
# title: Pods and containers of the children
# description: |
#   Finds the pod spec of every child that runs pods, and every container in it, with
#   the path at which a reader finds them.
package sluice.lib.pods

import data.sluice.lib.objects

# METADATA
# description: Where each kind keeps the spec of its pods.
spec_paths := {
	"CronJob": ["spec", "jobTemplate", "spec", "template", "spec"],
	"DaemonSet": ["spec", "template", "spec"],
	"Deployment": ["spec", "template", "spec"],
	"Job": ["spec", "template", "spec"],
	"Pod": ["spec"],
	"PodTemplate": ["template", "spec"],
	"ReplicaSet": ["spec", "template", "spec"],
	"ReplicationController": ["spec", "template", "spec"],
	"StatefulSet": ["spec", "template", "spec"],
}

# METADATA
# description: Kinds whose pods run to an end; what keeps a service up does not hold for them.
finite_kinds := {"CronJob", "Job"}

# METADATA
# description: |
#   All pod specs as {object, kind, path, spec}. An array: a set would compare whole pod
#   specs with each other.
all_pods := [pod |
	some child in input.children
	kind := objects.kind(child)
	spec_path := spec_paths[kind]
	spec := object.get(child, spec_path, null)
	spec != null
	pod := {
		"object": objects.name(child),
		"kind": kind,
		"path": concat(".", spec_path),
		"spec": spec,
	}
]

# METADATA
# description: |
#   All containers of all_pods as {object, kind, path, name, type, spec, pod}: type is
#   the field that holds it, spec the container, pod the pod's spec.
all_containers := [found |
	some pod in all_pods
	some type in ["containers", "initContainers", "ephemeralContainers"]
	some i, container in pod.spec[type]
	found := {
		"object": pod.object,
		"kind": pod.kind,
		"path": sprintf("%s.%s[%v]", [pod.path, type, i]),
		"name": object.get(container, "name", ""),
		"type": type,
		"spec": container,
		"pod": pod.spec,
	}
]

# METADATA
# description: |
#   The containers that a rollout replaces and that have to stay up: those of pods that
#   are not run to an end, without ephemeral ones.
service_containers := [container |
	some container in all_containers
	not container.kind in finite_kinds
	container.type != "ephemeralContainers"
]

# METADATA
# description: A violation of a container's field.
violation(container, field, msg) := {
	"msg": sprintf("container %q %s", [container.name, msg]),
	"object": container.object,
	"path": sprintf("%s.%s", [container.path, field]),
}

# METADATA
# description: |
#   A field of the security context as the kubelet takes it: the container's own, else
#   the pod's, else null.
effective(container, path) := own if {
	own := object.get(container.spec, array.concat(["securityContext"], path), null)
	own != null
} else := object.get(container.pod, array.concat(["securityContext"], path), null)
