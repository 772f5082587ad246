package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/metrics"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

var _ = errors.New
var _ = fmt.Sprint
var _ testing.TB
var _ metav1.Object

// watched is the label of the Workloads that the manager sees; it leaves those of the
// tests alone that reconcile by hand.
const watched = "test.sluice.dev/watched"

// judged counts the verdicts that the manager's reconciler gave, by namespace/name.
var judged = &tally{counts: map[string]int{}}

type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(v gate.Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[v.Object.Namespace+"/"+v.Object.Name]++
}

func (t *tally) of(w *v1beta1.Workload) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[w.Namespace+"/"+w.Name]
}

// startManager runs the controller as cmd/manager does.
func startManager() (stop func() error, err error) {
	objects := CacheByObject()
	objects[&v1beta1.Workload{}] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{watched: "yes"})}
	m, err := ctrl.NewManager(access, ctrl.Options{
		Scheme: scheme, Cache: cache.Options{ByObject: objects},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	references, err := cache.New(access, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{operatorNamespace: {}}})
	if err != nil {
		return nil, err
	}
	if err := m.Add(references); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Judge: gather.NewJudge(facts(m.GetClient(), references), registry.New(registry.Options{}), trust.New(trust.Options{})),
		Events: m.GetEventRecorder("sluice"), Metrics: metrics.New(prometheus.NewRegistry()), Observe: judged.add, Now: time.Now,
	}
	if err := r.SetupWithManager(ctx, m, references, 4); err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	return func() error { cancel(); return <-ended }, nil
}
