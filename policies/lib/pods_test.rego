package sluice.lib.pods_test

import data.sluice.lib.fixtures
import data.sluice.lib.objects
import data.sluice.lib.pods

test_finds_the_pod_of_every_kind if {
	every kind, layout in pods.layout_of {
		path := pods.layouts[layout].spec
		child := json.patch({"kind": kind, "metadata": {"name": "x"}}, [{"op": "add", "path": array.slice(path, 0, i), "value": {}} |
			some i in numbers.range(1, count(path))
		])
		found := pods.all_pods with input as {"children": [child]}
		metadata := object.get({"Pod": {"name": "x"}}, kind, {})
		found == [{"child": child, "layout": pods.layouts[layout], "metadata": metadata, "spec": {}}]
		pods.object_of(found[0]) == sprintf("%s/x", [kind])
		pods.path_of(found[0]) == concat(".", path)
		found[0].layout.metadata_path == concat(".", array.concat(array.slice(path, 0, count(path) - 1), ["metadata"]))
	}
}

test_finds_containers_of_every_type if {
	found := pods.all_containers with input as fixtures.pod([["add", "ephemeralContainers", [fixtures.container("debug")]]])
	[pods.path_of(c) | some c in found; c.pod.child.kind == "Deployment"] == [
		"spec.template.spec.containers[0]",
		"spec.template.spec.initContainers[0]",
		"spec.template.spec.ephemeralContainers[0]",
	]
}

test_service_containers_leave_out_jobs_and_ephemeral_ones if {
	found := pods.service_containers with input as fixtures.pod([["add", "ephemeralContainers", [fixtures.container("debug")]]])
	{sprintf("%s %s", [c.pod.child.kind, c.name]) | some c in found} == {"Deployment main", "Deployment init"}
}

test_ignores_children_without_pods if {
	count(pods.all_pods) == 0 with input as {"children": [fixtures.config_map, {}]}
}

test_names_objects_with_and_without_namespace if {
	objects.name({"kind": "A", "metadata": {"name": "b", "namespace": "c"}}) == "A/c/b"
	objects.name({"kind": "A", "metadata": {"name": "b"}}) == "A/b"
	objects.name({}) == "/"
}
