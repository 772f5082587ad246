package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestDeletion_EndsForWhatDependsOnEachOther has a real garbage collector and namespace
// controller: chains and cycles of Workloads are deleted one and all, and with their
// namespace.
func TestDeletion_EndsForWhatDependsOnEachOther(t *testing.T) {
	s := newSuite(t)
	gate := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sluice.dev/v1beta1", "kind": "Gate", "metadata": map[string]any{"name": "chained"},
		"spec": map[string]any{"environment": "chained", "mode": "Audit", "unmatchedImages": "Allow",
			"match": map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"sluice.dev/environment": "chained"}}}},
	}}
	if err := s.stage.Cluster.Apply(t.Context(), []*unstructured.Unstructured{gate}); err != nil {
		t.Fatal(err)
	}
	t.Run("a chain goes in reverse order", func(t *testing.T) {
		chain := s.chain(t, "chain-1")
		for _, w := range chain {
			if err := s.client.Delete(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		var order []string
		s.await(t, "all go", func(ctx context.Context) error {
			left := 0
			for _, w := range slices.Backward(chain) {
				d := child(w)
				switch err := s.client.Get(ctx, client.ObjectKeyFromObject(w), d); {
				case err == nil:
					left++
				case !apierrors.IsNotFound(err):
					return err
				case !slices.Contains(order, w.GetName()):
					order = append(order, w.GetName())
				}
			}
			if left > 0 {
				return fmt.Errorf("%d Deployments are left; gone are %v", left, order)
			}
			return s.gone(ctx, chain...)
		})
		if got := strings.Join(order, " "); got != "w3 w2 w1 w0" {
			t.Errorf("their pods went in the order %s", got)
		}
	})
	t.Run("a chain goes with its namespace", func(t *testing.T) {
		s.dropNamespace(t, "chain-2", s.chain(t, "chain-2"))
	})
	t.Run("a cycle goes with its namespace", func(t *testing.T) {
		s.removeWebhook(t)
		chain := s.chain(t, "chain-3")
		// The API server's own caches may still ask the webhook for a moment.
		s.await(t, "the cycle is there", func(ctx context.Context) error {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"dependsOn":[{"name":"w3"}]}}`))
			return s.client.Patch(ctx, chain[0], patch)
		})
		for _, w := range chain {
			s.await(t, "the cycle is shown", func(ctx context.Context) error { return s.stands(ctx, w, "Blocked") })
		}
		s.dropNamespace(t, "chain-3", chain)
	})
}

// chain makes a namespace with four Workloads, each of which depends on the one before,
// and waits until they run.
func (s *suite) chain(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	objects := []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace, "labels": map[string]any{"sluice.dev/environment": "chained"}},
	}}}
	for i := range 4 {
		spec := map[string]any{"image": signedImage}
		if i > 0 {
			spec["dependsOn"] = []any{map[string]any{"name": fmt.Sprint("w", i-1)}}
		}
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sluice.dev/v1beta1", "kind": "Workload", "spec": spec,
			"metadata": map[string]any{"name": fmt.Sprint("w", i), "namespace": namespace},
		}})
	}
	if err := s.stage.Cluster.Apply(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	for _, w := range objects[1:] {
		s.await(t, w.GetName()+" runs", func(ctx context.Context) error { return s.stands(ctx, w, "Ready") })
	}
	return objects[1:]
}

func (s *suite) await(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

func (s *suite) stands(ctx context.Context, w *unstructured.Unstructured, phase string) error {
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(w.GroupVersionKind())
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(w), now); err != nil {
		return err
	}
	if got, _, _ := unstructured.NestedString(now.Object, "status", "phase"); got != phase {
		return fmt.Errorf("%s is %s and not %s: %v", w.GetName(), got, phase, now.Object["status"])
	}
	return nil
}

func child(w *unstructured.Unstructured) *unstructured.Unstructured {
	d := &unstructured.Unstructured{}
	d.SetAPIVersion("apps/v1")
	d.SetKind("Deployment")
	d.SetName(w.GetName())
	d.SetNamespace(w.GetNamespace())
	return d
}

func (s *suite) gone(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(o.GroupVersionKind())
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(o), now); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s %s is still there (%v): %v", o.GetKind(), o.GetName(), err, now.Object["status"])
		}
	}
	return nil
}

func (s *suite) dropNamespace(t *testing.T, name string, workloads []*unstructured.Unstructured) {
	t.Helper()
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	if err := s.client.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	s.await(t, "the namespace goes with all that is in it", func(ctx context.Context) error {
		if err := s.gone(ctx, workloads...); err != nil {
			return err
		}
		return s.gone(ctx, ns)
	})
}
