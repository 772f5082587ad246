package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
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
func scrape(ctx context.Context, url string) (counters, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return counters{}, fmt.Errorf("metrics: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return counters{}, fmt.Errorf("metrics: %w", err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return counters{}, fmt.Errorf("metrics of %s: %w", url, err)
	}
	// sum adds the series of a metric that carry a label's value, or all.
	sum := func(name, label, value string) (total float64) {
		for _, m := range families[name].GetMetric() {
			matches := label == ""
			for _, l := range m.GetLabel() {
				matches = matches || l.GetName() == label && l.GetValue() == value
			}
			if matches { // of one series, one of these is set
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		return total
	}
	return counters{
		reconciles: sum("controller_runtime_reconcile_total", "controller", "workload"),
		failed:     sum("controller_runtime_reconcile_errors_total", "controller", "workload"),
		waiting:    sum("workqueue_depth", "name", "workload"),
		running:    sum("controller_runtime_active_workers", "controller", "workload"),
		registry:   sum("sluice_registry_requests_total", "", ""),
		cpu:        sum("process_cpu_seconds_total", "", ""),
		heap:       sum("go_memstats_heap_inuse_bytes", "", ""),
	}, nil
}
