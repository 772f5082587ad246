package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// judged counts the verdicts of an environment's operator over what runs.
func (e *environment) judged(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.stage.MetricsURL, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", e.name, err)
	}
	total := 0.0
	for _, m := range families["sluice_verdicts_total"].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetValue() == "reconcile" {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total, nil
}
