package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

// How the fleet is spread: so many Workloads in one namespace, and as many with one image.
const (
	perNamespace = 100
	perImage     = 10
)

// creators is how many Workloads are created at a time, as by a tool that syncs a fleet.
const creators = 32

var (
	workloads   = schema.GroupVersionResource{Group: v1beta1.GroupVersion.Group, Version: v1beta1.GroupVersion.Version, Resource: "workloads"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// place is where the i-th Workload is, in the namespaces that begin with prefix.
func place(prefix string, i int) (namespace, name string) {
	return fmt.Sprintf("%s-%02d", prefix, i/perNamespace), fmt.Sprintf("w-%04d", i)
}

func imageOf(i int) string { return fmt.Sprintf("shop/bench-%03d:1.0.0", i/perImage) }

// namespaces for n Workloads, under the overlay's Gate.
func namespaces(prefix string, n int) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for i := 0; i < n; i += perNamespace {
		name, _ := place(prefix, i)
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"sluice.dev/environment": "dev"}},
		}})
	}
	return out
}

// workload is the i-th: a service of two replicas with a configuration, which renders to a
// child of every kind but those for storage and backup.
func workload(prefix string, i int) *unstructured.Unstructured {
	namespace, name := place(prefix, i)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": v1beta1.WorkloadKind,
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{
			"image": stage.Registry + "/" + imageOf(i), "version": "1.0.0", "replicas": int64(2),
			"ports":     []any{map[string]any{"name": "http", "port": int64(8080)}},
			"resources": map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "128Mi"}, "limits": map[string]any{"memory": "256Mi"}},
			"probes":    map[string]any{"readiness": map[string]any{"httpGet": map[string]any{"path": "/healthz", "port": "http"}}},
			"config":    map[string]any{"mountPath": "/etc/app", "files": map[string]any{"app.yaml": fmt.Sprintf("name: %s\n", name)}},
		},
	}}
}

// create creates n Workloads at once.
func create(ctx context.Context, c dynamic.Interface, prefix string, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range n {
		group.Go(func() error {
			w := workload(prefix, i)
			if _, err := c.Resource(workloads).Namespace(w.GetNamespace()).Create(ctx, w, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create Workload %s/%s: %w", w.GetNamespace(), w.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// until watches a resource until n objects of it are as wanted at the same time.
func until(ctx context.Context, c dynamic.Interface, resource schema.GroupVersionResource, n int, wanted func(*unstructured.Unstructured) bool) error {
	objects := c.Resource(resource)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, o)
		},
	}
	are := map[string]bool{}
	_, err := watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return false, fmt.Errorf("watch of %s: %s: %v", resource.Resource, e.Type, e.Object)
		}
		key := u.GetNamespace() + "/" + u.GetName()
		if delete(are, key); e.Type != watch.Deleted && wanted(u) {
			are[key] = true
		}
		return len(are) >= n, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d %s are as wanted: %w", len(are), n, resource.Resource, err)
	}
	return nil
}

// isReady says whether a Workload is Ready in its current generation.
func isReady(u *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	return phase == string(v1beta1.PhaseReady) && observed(u)
}

// isAvailable says whether all pods of a Deployment are.
func isAvailable(u *unstructured.Unstructured) bool {
	want, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	have, _, _ := unstructured.NestedInt64(u.Object, "status", "availableReplicas")
	return have == want && observed(u)
}

func observed(u *unstructured.Unstructured) bool {
	seen, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return seen == u.GetGeneration()
}
