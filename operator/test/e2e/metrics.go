package main

import (
	"context"
	"fmt"
)

// judged counts the verdicts of an environment's operator over what runs.
func (e *environment) judged(ctx context.Context) (float64, error) {
	m, err := e.stage.Metrics(ctx)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", e.name, err)
	}
	return m.Sum("sluice_verdicts_total", "point", "reconcile"), nil
}
