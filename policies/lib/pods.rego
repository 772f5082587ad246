# METADATA
# title: Pods and containers of the children
# description: |
#   Finds the pod spec of every child that runs pods, and every container in it, with
#   the path at which a reader finds them.
package sluice.lib.pods

import data.sluice.lib.objects

# METADATA
# description: How each kind that runs pods is laid out, by the names of layouts.
layout_of := {
	"CronJob": "cron",
	"DaemonSet": "template",
	"Deployment": "template",
	"Job": "template",
	"Pod": "pod",
	"PodTemplate": "bare",
	"ReplicaSet": "template",
	"ReplicationController": "template",
	"StatefulSet": "template",
}

# METADATA
# description: |
#   Where a layout keeps the spec and the metadata of its pods, and both in the words of a
#   finding. Written out: what a rule puts together is put together for each input.
layouts := {
	"bare": {
		"spec": ["template", "spec"], "path": "template.spec",
		"metadata": ["template", "metadata"], "metadata_path": "template.metadata",
	},
	"cron": {
		"spec": ["spec", "jobTemplate", "spec", "template", "spec"], "path": "spec.jobTemplate.spec.template.spec",
		"metadata": ["spec", "jobTemplate", "spec", "template", "metadata"], "metadata_path": "spec.jobTemplate.spec.template.metadata",
	},
	"pod": {"spec": ["spec"], "path": "spec", "metadata": ["metadata"], "metadata_path": "metadata"},
	"template": {
		"spec": ["spec", "template", "spec"], "path": "spec.template.spec",
		"metadata": ["spec", "template", "metadata"], "metadata_path": "spec.template.metadata",
	},
}

# METADATA
# description: Kinds whose pods run to an end; what keeps a service up does not hold for them.
finite_kinds := {"CronJob", "Job"}

# METADATA
# description: |
#   All pods as {child, layout, metadata, spec}: child is the object that they are of, layout
#   one of layouts, metadata and spec those of the pods. An array: a set would compare whole
#   pod specs with each other. What only a finding says is left to path_of and object_of.
all_pods := [pod |
	kinds := layout_of # once, and not for each child
	some child in input.children
	layout := layouts[kinds[child.kind]]
	spec := object.get(child, layout.spec, null)
	spec != null
	pod := {
		"child": child,
		"layout": layout,
		"metadata": object.get(child, layout.metadata, {}),
		"spec": spec,
	}
]

# METADATA
# description: |
#   All containers of all_pods as {index, name, pod, spec, type}: type is the field that
#   holds it, spec the container, pod one of all_pods.
all_containers := [container |
	some pod in all_pods
	some type in ["containers", "initContainers", "ephemeralContainers"]
	some i, spec in pod.spec[type]
	container := {
		"index": i,
		"name": object.get(spec, "name", ""),
		"pod": pod,
		"spec": spec,
		"type": type,
	}
]

# METADATA
# description: |
#   All pods and all containers: what may have a securityContext, as spec.securityContext. A
#   pod's own counts although each container overrides it: the Pod Security Standards say so.
places := array.concat(all_pods, all_containers)

# METADATA
# description: |
#   The containers that a rollout replaces and that have to stay up: those of pods that
#   are not run to an end, without ephemeral ones.
service_containers := [container |
	some container in all_containers
	not container.pod.child.kind in finite_kinds
	container.type != "ephemeralContainers"
]

# METADATA
# description: The name of the object that a pod or a container is of.
object_of(place) := objects.name(_pod(place).child)

# METADATA
# description: The path at which a reader finds a container, or the spec of a pod.
path_of(place) := sprintf("%s.%s[%v]", [place.pod.layout.path, place.type, place.index]) if {
	place.pod
} else := place.layout.path

# METADATA
# description: A violation of a container's field.
violation(container, field, msg) := {
	"msg": sprintf("container %q %s", [container.name, msg]),
	"object": object_of(container),
	"path": sprintf("%s.%s", [path_of(container), field]),
}

# METADATA
# description: A violation of a field of the securityContext of one of places.
misset(place, field, msg) := {
	"msg": sprintf("%s %s", [_who(place), msg]),
	"object": object_of(place),
	"path": sprintf("%s.securityContext.%s", [path_of(place), field]),
}

_who(place) := sprintf("container %q", [place.name]) if {
	place.name
} else := "the pod"

# METADATA
# description: |
#   Whether the pod, or that of the container, says that it runs on Windows, where the API
#   server refuses some fields of Linux.
on_windows(place) if _pod(place).spec.os.name == "windows"

# METADATA
# description: |
#   Whether root of the pod, or of that of the container, is nobody on its node. Since 1.35 the
#   Pod Security Standards allow such a pod to be root, and at baseline to unmask /proc.
in_user_namespace(place) if _pod(place).spec.hostUsers == false

_pod(place) := object.get(place, "pod", place)

# METADATA
# description: |
#   The Deployments and their like that run more than one pod, as {object, child, labels,
#   replicas, spec}.
replicated := [found |
	some child in input.children
	child.kind in {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"}
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
