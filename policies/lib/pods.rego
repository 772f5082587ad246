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
#   All pod specs as {object, kind, path, spec, metadata_path, metadata}; metadata is that
#   of the pods. An array: a set would compare whole pod specs with each other.
all_pods := [pod |
	some child in input.children
	kind := objects.kind(child)
	spec_path := spec_paths[kind]
	spec := object.get(child, spec_path, null)
	spec != null
	metadata_path := array.concat(array.slice(spec_path, 0, count(spec_path) - 1), ["metadata"])
	pod := {
		"object": objects.name(child),
		"kind": kind,
		"path": concat(".", spec_path),
		"spec": spec,
		"metadata_path": concat(".", metadata_path),
		"metadata": object.get(child, metadata_path, {}),
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
#   Every place at which a pod or a container sets a field of its securityContext, as
#   {object, path, value, pod, who}. A pod's own value counts although each container
#   overrides it: the Pod Security Standards say so.
set_in_context(field) := array.concat(
	[place |
		some pod in all_pods
		value := object.get(pod.spec, array.concat(["securityContext"], field), null)
		value != null
		place := {
			"object": pod.object,
			"path": sprintf("%s.securityContext.%s", [pod.path, concat(".", field)]),
			"value": value,
			"pod": pod.spec,
			"who": "the pod",
		}
	],
	[place |
		some container in all_containers
		value := object.get(container.spec, array.concat(["securityContext"], field), null)
		value != null
		place := {
			"object": container.object,
			"path": sprintf("%s.securityContext.%s", [container.path, concat(".", field)]),
			"value": value,
			"pod": container.pod,
			"who": sprintf("container %q", [container.name]),
		}
	],
)

# METADATA
# description: |
#   The containers for which neither they nor their pod set a field of the
#   securityContext.
unset_in_context(field) := [container |
	some container in all_containers
	path := array.concat(["securityContext"], field)
	object.get(container.spec, path, null) == null
	object.get(container.pod, path, null) == null
]

# METADATA
# description: A violation at a place of set_in_context.
misset(place, msg) := {
	"msg": sprintf("%s %s", [place.who, msg]),
	"object": place.object,
	"path": place.path,
}

# METADATA
# description: |
#   Whether a pod says that it runs on Windows, where the API server refuses some fields
#   of Linux.
on_windows(spec) if object.get(spec, ["os", "name"], "") == "windows"

# METADATA
# description: |
#   Whether root of a pod is nobody on its node. Since 1.35 the Pod Security Standards
#   allow such a pod to be root, and at baseline to unmask /proc.
in_user_namespace(spec) if object.get(spec, "hostUsers", null) == false

# METADATA
# description: |
#   The Deployments and their like that run more than one pod, as {object, child, labels,
#   replicas, spec}.
replicated := [found |
	some child in input.children
	kind := objects.kind(child)
	kind in {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"}
	replicas := object.get(child, ["spec", "replicas"], 1)
	replicas > 1
	found := {
		"object": objects.name(child),
		"child": child,
		"labels": object.get(child, ["spec", "template", "metadata", "labels"], {}),
		"replicas": replicas,
		"spec": object.get(child, ["spec", "template", "spec"], {}),
	}
]
