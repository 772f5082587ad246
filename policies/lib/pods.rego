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
#   All pod specs as {object, kind, path, spec, metadata_path, metadata}; metadata is that
#   of the pods. An array: a set would compare whole pod specs with each other.
all_pods := [pod |
	some child in input.children
	layout := layouts[layout_of[child.kind]]
	spec := object.get(child, layout.spec, null)
	spec != null
	pod := {
		"object": objects.name(child),
		"kind": child.kind,
		"path": layout.path,
		"spec": spec,
		"metadata_path": layout.metadata_path,
		"metadata": object.get(child, layout.metadata, {}),
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
#   The securityContext of every pod and container that has one, as {object, path,
#   context, pod} and, for one of a container, its name as container. path is that of what
#   has the context, pod the pod's spec. A pod's own counts although each container overrides
#   it: the Pod Security Standards say so.
contexts := array.concat(
	[place |
		some pod in all_pods
		place := {
			"object": pod.object,
			"path": pod.path,
			"context": pod.spec.securityContext,
			"pod": pod.spec,
		}
	],
	[place |
		some container in all_containers
		place := {
			"object": container.object,
			"path": container.path,
			"container": container.name,
			"context": container.spec.securityContext,
			"pod": container.pod,
		}
	],
)

# METADATA
# description: |
#   The containers for which neither they nor their pod set a field of the
#   securityContext.
unset_in_context(field) := [container |
	some container in all_containers
	object.get(container.spec, ["securityContext", field], null) == null
	object.get(container.pod, ["securityContext", field], null) == null
]

# METADATA
# description: A violation of a field of one of the contexts, given by its path in there.
misset(place, field, msg) := {
	"msg": sprintf("%s %s", [_who(place), msg]),
	"object": place.object,
	"path": sprintf("%s.securityContext.%s", [place.path, field]),
}

_who(place) := sprintf("container %q", [place.container]) if {
	place.container
} else := "the pod"

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
