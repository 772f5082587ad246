package main

import (
	"context"

	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

// counters are some of the operator's own metrics.
type counters struct {
	// reconciles done, and of those that failed; waiting and running right now.
	reconciles, failed, waiting, running float64
	// registry is requests to the registry.
	registry float64
	// cpu is the process's CPU time in seconds, and heap what its heap has in use in bytes.
	cpu, heap float64
}

// scrape reads the operator's metrics.
func scrape(ctx context.Context, from *stage.Stage) (counters, error) {
	m, err := from.Metrics(ctx)
	if err != nil {
		return counters{}, err
	}
	return counters{
		reconciles: m.Sum("controller_runtime_reconcile_total", "controller", "workload"),
		failed:     m.Sum("controller_runtime_reconcile_errors_total", "controller", "workload"),
		waiting:    m.Sum("workqueue_depth", "name", "workload"),
		running:    m.Sum("controller_runtime_active_workers", "controller", "workload"),
		registry:   m.Sum("sluice_registry_requests_total", "", ""),
		cpu:        m.Sum("process_cpu_seconds_total", "", ""),
		heap:       m.Sum("go_memstats_heap_inuse_bytes", "", ""),
	}, nil
}
