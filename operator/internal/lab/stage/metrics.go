package stage

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the operator's own, as they were at one moment.
type Metrics map[string]*dto.MetricFamily

// Metrics reads them.
func (s *Stage) Metrics(ctx context.Context) (Metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.MetricsURL, nil)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", s.MetricsURL, err)
	}
	return families, nil
}

// Sum adds the series of a counter or gauge that carry a label's value, or all where label is "".
func (m Metrics) Sum(name, label, value string) (total float64) {
	for _, series := range m[name].GetMetric() {
		matches := label == ""
		for _, l := range series.GetLabel() {
			matches = matches || l.GetName() == label && l.GetValue() == value
		}
		if matches { // of one series, one of these is set
			total += series.GetCounter().GetValue() + series.GetGauge().GetValue()
		}
	}
	return total
}
