package conformance

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// canaried is a Workload whose releases go by one pod at a time, while an error rate stays low.
func canaried(name string, storage map[string]any) *unstructured.Unstructured {
	spec := map[string]any{
		"image": signedImage, "replicas": int64(3), "ports": []any{map[string]any{"name": "http", "port": int64(8080)}},
		"resources": map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "128Mi"}, "limits": map[string]any{"memory": "256Mi"}},
		"rollout": map[string]any{
			"strategy": "Canary", "rollbackOnFailure": true,
			"canary": map[string]any{
				"batchSize": int64(1), "interval": "2s", "failureLimit": int64(2),
				"analysis": map[string]any{"timeout": "30s", "metrics": []any{
					map[string]any{"name": "errors", "query": "max(app_errors)", "failIf": "> 0.01"},
				}},
			},
		},
	}
	if storage != nil {
		spec["storage"] = storage
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sluice.dev/v1beta1", "kind": "Workload", "spec": spec,
		"metadata": map[string]any{"name": name, "namespace": "canaries", "labels": map[string]any{"team": "shop"}},
	}}
}

// TestCanary_IsMeasuredByPrometheus has everything real but the pods: the controllers of
// Deployments and StatefulSets, and a Prometheus that scrapes an error rate.
func TestCanary_IsMeasuredByPrometheus(t *testing.T) {
	rate := prometheus.NewGauge(prometheus.GaugeOpts{Name: "app_errors", Help: "Errors per request."})
	registry := prometheus.NewRegistry()
	registry.MustRegister(rate)
	app := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(app.Close)
	tools, err := lab.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := testkit.StartPrometheus(t.Context(), filepath.Join(tools, "prometheus"), t.TempDir(), strings.TrimPrefix(app.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(metrics.Stop)
	s := newSuite(t, "--prometheus-address="+metrics.URL)
	for _, image := range []string{"shop/cache:7.2.5", "shop/cache:7.2.6"} {
		if err := s.stage.PushSigned(image); err != nil {
			t.Fatal(err)
		}
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "canaries", "labels": map[string]any{"sluice.dev/environment": "dev"}},
	}}
	web, db := canaried("web", nil), canaried("db", map[string]any{"size": "1Gi", "mountPath": "/data"})
	if err := s.stage.Cluster.Apply(t.Context(), []*unstructured.Unstructured{namespace, web, db}); err != nil {
		t.Fatal(err)
	}
	both := []*unstructured.Unstructured{web, db}
	for _, w := range both {
		s.await(t, w.GetName()+" runs and has a stable revision", func(ctx context.Context) error { return s.settled(ctx, w, "Ready", "") })
	}
	first := s.rollout(t, web)["stableDigest"]

	t.Run("a good release reaches every pod", func(t *testing.T) {
		for _, w := range both {
			s.setImage(t, w, "registry.example.com/shop/cache:7.2.5")
		}
		for _, w := range both {
			s.await(t, w.GetName()+" goes through its canary", func(ctx context.Context) error { return s.stands(ctx, w, "Canary") })
		}
		for _, w := range both {
			s.await(t, w.GetName()+" is released", func(ctx context.Context) error { return s.settled(ctx, w, "Ready", "") })
			if r := s.rollout(t, w); r["stableDigest"] == first || r["stableDigest"] != r["currentDigest"] {
				t.Errorf("%s: %v", w.GetName(), r)
			}
		}
	})
	second := s.rollout(t, web)["stableDigest"]
	t.Run("a bad release is taken back", func(t *testing.T) {
		rate.Set(0.5)
		for _, w := range both {
			s.setImage(t, w, "registry.example.com/shop/cache:7.2.6")
		}
		for _, w := range both {
			s.await(t, w.GetName()+" is back on the stable revision", func(ctx context.Context) error {
				return s.settled(ctx, w, "Degraded", "every pod is back on the stable revision")
			})
			r := s.rollout(t, w)
			if r["stableDigest"] != second || r["failedDigest"] == nil || r["failedDigest"] == second {
				t.Errorf("%s: %v", w.GetName(), r)
			}
			if evidence := fmt.Sprint(r["measurements"]); !strings.Contains(evidence, "0.5") {
				t.Errorf("%s: evidence %s", w.GetName(), evidence)
			}
		}
	})
}

func (s *suite) setImage(t *testing.T, w *unstructured.Unstructured, image string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"image":"`+image+`"}}`))
	if err := s.client.Patch(t.Context(), w.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
}

// settled waits for a phase, and a part of the message of Ready, with every pod's
// controller done.
func (s *suite) settled(ctx context.Context, w *unstructured.Unstructured, phase, says string) error {
	if err := s.stands(ctx, w, phase); err != nil {
		return err
	}
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(w.GroupVersionKind())
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(w), now); err != nil {
		return err
	}
	if now.GetGeneration() != nested(now, "observedGeneration") || !strings.Contains(fmt.Sprint(now.Object["status"]), says) {
		return fmt.Errorf("%s: %v", w.GetName(), now.Object["status"])
	}
	if stable, _, _ := unstructured.NestedString(now.Object, "status", "rollout", "stableDigest"); stable == "" {
		return fmt.Errorf("%s has no stable revision: %v", w.GetName(), now.Object["status"])
	}
	return nil
}

func nested(u *unstructured.Unstructured, field string) int64 {
	n, _, _ := unstructured.NestedInt64(u.Object, "status", field)
	return n
}

func (s *suite) rollout(t *testing.T, w *unstructured.Unstructured) map[string]any {
	t.Helper()
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(w.GroupVersionKind())
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(w), now); err != nil {
		t.Fatal(err)
	}
	r, _, _ := unstructured.NestedMap(now.Object, "status", "rollout")
	return r
}
