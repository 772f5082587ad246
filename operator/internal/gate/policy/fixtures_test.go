package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// container satisfies every rule of the library.
func container(name string) map[string]any {
	return map[string]any{
		"name": name, "image": "registry.example.com/shop/orders:1.2.3",
		"ports": []any{map[string]any{"name": "http", "containerPort": int64(8080)}},
		"env":   []any{map[string]any{"name": "GREETING", "value": "hello"}},
		"readinessProbe": map[string]any{
			"httpGet": map[string]any{"path": "/", "port": "http"},
		},
		"resources": map[string]any{
			"requests": map[string]any{"cpu": "250m", "memory": "512Mi"},
			"limits":   map[string]any{"memory": "1Gi"},
		},
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": map[string]any{"drop": []any{"ALL"}},
		},
		"volumeMounts": []any{map[string]any{"name": "config", "mountPath": "/etc/orders"}},
	}
}

func podTemplate() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": labels()},
		"spec": map[string]any{
			"topologySpreadConstraints": []any{map[string]any{"topologyKey": "kubernetes.io/hostname", "maxSkew": int64(1)}},
			"serviceAccountName":        "orders", "automountServiceAccountToken": false,
			"securityContext": map[string]any{
				"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
			},
			"containers": []any{container("main")},
			"volumes": []any{
				map[string]any{"name": "config", "configMap": map[string]any{"name": "orders-config"}},
			},
		},
	}
}

func labels() map[string]any {
	return map[string]any{
		"app.kubernetes.io/name": "orders", "app.kubernetes.io/instance": "orders",
		"app.kubernetes.io/version": "1.2.3", "app.kubernetes.io/managed-by": "sluice",
	}
}

func child(kind string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": kind, "spec": spec,
		"metadata": map[string]any{"name": "orders", "namespace": "shop", "labels": labels()},
	}
}

// goodInput is a Workload with six children that no rule of the library objects to,
// under a Gate with the sources given.
func goodInput(sets ...gate.PolicySet) *gate.Input {
	config := child("ConfigMap", nil)
	config["data"] = map[string]any{"orders.conf": "max_connections = 200\n"}
	return &gate.Input{
		Gate: gate.Config{
			Name: "prod", Environment: "prod", Mode: gate.Enforce, Policies: sets,
			Parameters: map[string]any{"reliability": map[string]any{"minReplicas": float64(2)}},
		},
		Object:    gate.ObjectRef{APIVersion: "sluice.dev/v1beta1", Kind: "Workload", Name: "orders", Namespace: "shop"},
		Namespace: gate.Namespace{Name: "shop", Labels: map[string]string{"sluice.dev/environment": "prod"}},
		Submitted: map[string]any{
			"apiVersion": "sluice.dev/v1beta1", "kind": "Workload",
			"metadata": map[string]any{"name": "orders", "namespace": "shop"},
			"spec":     map[string]any{"image": "registry.example.com/shop/orders:1.2.3", "replicas": int64(3)},
		},
		Children: []map[string]any{
			child("Deployment", map[string]any{"replicas": int64(3), "template": podTemplate()}),
			child("Service", map[string]any{"ports": []any{map[string]any{"port": int64(8080)}}}),
			config,
			child("PodDisruptionBudget", map[string]any{"minAvailable": int64(2), "selector": map[string]any{"matchLabels": labels()}}),
			child("NetworkPolicy", map[string]any{"podSelector": map[string]any{"matchLabels": labels()}}),
			child("ServiceAccount", nil),
		},
		Images: []gate.Image{{
			Ref: "registry.example.com/shop/orders:1.2.3", Repository: "registry.example.com/shop/orders", Tag: "1.2.3",
			Digest:    "sha256:" + strings.Repeat("0", 64),
			Locations: []gate.Location{{Object: "Deployment/shop/orders", Path: "spec.template.spec.containers[0].image"}},
		}},
	}
}

// mainContainer of the Deployment in goodInput, to spoil.
func mainContainer(in *gate.Input) map[string]any {
	template := in.Children[0]["spec"].(map[string]any)["template"].(map[string]any)
	return template["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
}

// house is a source with one module.
func house(text string) gate.PolicySet {
	return gate.PolicySet{Name: "sluice-system/house", Modules: map[string]string{"house.rego": text}}
}

func builtin(t testing.TB, group string) gate.PolicySet {
	t.Helper()
	set, ok := Builtin(group)
	if !ok {
		t.Fatalf("no builtin group %s", group)
	}
	return set
}

func allBuiltins(t testing.TB) []gate.PolicySet {
	t.Helper()
	var sets []gate.PolicySet
	for _, group := range BuiltinGroups() {
		sets = append(sets, builtin(t, group))
	}
	return sets
}

// show renders findings for messages of tests.
func show(f gate.Findings) string {
	return fmt.Sprintf("deny %+v\nwarn %+v\nundecided %+v", f.Deny, f.Warn, f.Undecided)
}
