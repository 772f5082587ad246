package workload

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// asked reconciles once, and returns what of children was read past the cache.
func (b *bench) asked(w *v1beta1.Workload) []string {
	b.t.Helper()
	var out []string
	b.r.Live = interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			out = append(out, fmt.Sprintf("get %s %s", o.GetObjectKind().GroupVersionKind().Kind, key.Name))
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			out = append(out, "list "+l.GetObjectKind().GroupVersionKind().Kind)
			return c.List(ctx, l, opts...)
		},
	})
	b.must(w)
	return out
}

// A thousand Workloads at a restart are a thousand times what one asks for.
func TestReconcile_LooksForWhatIsLostWhereSomethingCanBe(t *testing.T) {
	unsigned := func(w *v1beta1.Workload) { w.Spec.Image, _ = push(t, w.Namespace+"/web:unsigned", "unsigned") }
	paused := func(w *v1beta1.Workload) { w.Spec.Paused = true }
	for name, c := range map[string]struct {
		start        func(*bench) *v1beta1.Workload
		first, later []string
	}{
		"at rest": {start: func(b *bench) *v1beta1.Workload { return b.running("web") }},
		"with a record": {start: func(b *bench) *v1beta1.Workload {
			w := b.running("web", stepwise)
			b.must(w)
			return w
		}},
		"midway": {start: func(b *bench) *v1beta1.Workload {
			w, _, _ := b.canarying("web", stepwise)
			return w
		}},
		"paused": {start: func(b *bench) *v1beta1.Workload {
			w := b.running("web")
			b.update(w, paused)
			return w
		}},
		"never let through":              {start: func(b *bench) *v1beta1.Workload { return b.workload("web", unsigned) }},
		"never let through, and watched": {start: func(b *bench) *v1beta1.Workload { return b.workload("web", unsigned, stepwise) }},
		"not let through any more": {start: func(b *bench) *v1beta1.Workload {
			w := b.running("web")
			b.update(w, unsigned)
			return w
		}},
		"waiting": {start: func(b *bench) *v1beta1.Workload {
			return b.workload("web", stepwise, func(w *v1beta1.Workload) { w.Spec.DependsOn = []v1beta1.DependencyRef{{Name: "db"}} })
		}},
		"before its first record": {first: []string{"list ControllerRevisionList"}, start: func(b *bench) *v1beta1.Workload {
			w := b.workload("web", stepwise)
			b.must(w)
			return w
		}},
		"paused, and deleted": {first: []string{"get Deployment web"}, later: []string{"get Deployment web"}, start: func(b *bench) *v1beta1.Workload {
			w := b.running("web")
			b.update(w, paused)
			if err := api.Delete(b.t.Context(), b.child("Deployment", "web")); err != nil {
				b.t.Fatal(err)
			}
			return w
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := c.start(b)
			b.restart()
			if diff := cmp.Diff(c.first, b.asked(w)); diff != "" {
				t.Errorf("after a restart: %s", diff)
			}
			if diff := cmp.Diff(c.later, b.asked(w)); diff != "" {
				t.Errorf("then: %s", diff)
			}
		})
	}
}
