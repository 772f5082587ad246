# Objects that satisfy every rule, and a way to spoil them.
package sluice.lib.fixtures

deployment := {
	"apiVersion": "apps/v1", "kind": "Deployment",
	"metadata": metadata,
	"spec": {"replicas": 3, "template": {"metadata": {"labels": metadata.labels}, "spec": object.union(pod_spec, {"topologySpreadConstraints": [{"topologyKey": "kubernetes.io/hostname"}]})}},
}

cron_job := {
	"apiVersion": "batch/v1", "kind": "CronJob",
	"metadata": metadata,
	"spec": {"jobTemplate": {"spec": {"template": {"metadata": {"labels": metadata.labels}, "spec": pod_spec}}}},
}

config_map := {
	"apiVersion": "v1", "kind": "ConfigMap",
	"metadata": metadata,
	"data": {"shop.conf": "greeting = hello"},
}

disruption_budget := {
	"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
	"metadata": metadata,
	"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app.kubernetes.io/name": "shop"}}},
}

network_policy := {
	"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
	"metadata": metadata,
	"spec": {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "shop"}}, "policyTypes": ["Ingress"]},
}

metadata := {
	"name": "shop", "namespace": "store",
	"labels": {"app.kubernetes.io/name": "shop", "app.kubernetes.io/managed-by": "sluice"},
}

pod_spec := {
	"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
	"volumes": [{"name": "tmp", "emptyDir": {}}],
	"containers": [container("main")],
	"initContainers": [container("init")],
}

container(name) := {
	"name": name,
	"image": "registry.example.com/shop:1.0.0",
	"ports": [{"name": "http", "containerPort": 8080}],
	"env": [{"name": "GREETING", "value": "hello"}],
	"readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
	"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}},
	"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
}

image := {
	"image": "registry.example.com/shop:1.0.0", "repository": "registry.example.com/shop",
	"tag": "1.0.0", "digest": "sha256:00", "pinned": false,
	"locations": [{"object": "Deployment/store/shop", "path": "spec.template.spec.containers[0].image"}],
}

# The input of a Workload in prod that breaks no rule.
good := {
	"environment": "prod",
	"namespace": {"name": "store", "labels": {}},
	"workload": {"kind": "Workload", "metadata": {"name": "shop", "namespace": "store"}, "spec": {}},
	"object": {"kind": "Workload", "metadata": {"name": "shop", "namespace": "store"}, "spec": {}},
	"children": [deployment, cron_job, config_map, disruption_budget, network_policy],
	"images": [image],
	"parameters": {},
}

pod_root := "children/0/spec/template/spec"

# good with JSON patch operations [op, path, value] applied.
spoiled(operations) := json.patch(good, [{"op": op, "path": path, "value": value} |
	some [op, path, value] in operations
])

# good with operations on the Deployment's pod spec.
pod(operations) := spoiled([[op, sprintf("%s/%s", [pod_root, path]), value] | some [op, path, value] in operations])

paths(violations) := {v.path | some v in violations}

objects(violations) := {v.object | some v in violations}
