// Package metrics holds the operator's own Prometheus metrics. No label carries an
// object's name but that of a Gate, whose series go with it: the number of series does not
// grow with the fleet, nor with time.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Set is the metrics of one process.
type Set struct {
	// Verdicts counts decisions by gate point (admission, reconcile) and verdict.
	Verdicts *prometheus.CounterVec
	// DecisionSeconds is how long gathering and deciding took, by gate point.
	DecisionSeconds *prometheus.HistogramVec
	// ChildWrites counts writes to children by kind and operation (apply, overwrite,
	// delete, release, grow, scale).
	ChildWrites *prometheus.CounterVec
	// StatusWrites counts writes of Workload status.
	StatusWrites prometheus.Counter
	// Drift counts fields found changed by others, by kind of the child and by what was
	// done (healed, reported).
	Drift *prometheus.CounterVec
	// Attestations counts what became of evidence that Gates have written, by Gate and result
	// (written, present, failed). There are few Gates, and they are no Workloads. It is
	// written by Attested and Forget alone.
	Attestations *prometheus.CounterVec

	// gates keeps a Gate that is forgotten from being counted a moment later.
	gates sync.Mutex
}

// New makes the metrics and registers them.
func New(registry prometheus.Registerer) *Set {
	s := &Set{
		Verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_verdicts_total", Help: "Decisions, by gate point and verdict.",
		}, []string{"point", "verdict"}),
		DecisionSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_decision_seconds", Help: "Time to gather facts and decide, in seconds, by gate point.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"point"}),
		ChildWrites: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_child_writes_total", Help: "Writes to children, by kind and operation.",
		}, []string{"kind", "operation"}),
		StatusWrites: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_status_writes_total", Help: "Writes of Workload status.",
		}),
		Drift: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_drift_fields_total", Help: "Fields of children found changed by others, by kind and by what was done.",
		}, []string{"kind", "action"}),
		Attestations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_attestations_total", Help: "Evidence that a Gate has written, by Gate and result: written, present (it was there) or failed.",
		}, []string{"gate", "result"}),
	}
	registry.MustRegister(s.Verdicts, s.DecisionSeconds, s.ChildWrites, s.StatusWrites, s.Drift, s.Attestations)
	return s
}

// Attested counts one piece of evidence that a Gate has written, if there says that the Gate
// is there. From when Forget is called for a Gate, there has to say that it is not.
func (s *Set) Attested(gate, result string, there func() bool) {
	s.gates.Lock()
	defer s.gates.Unlock()
	if there() {
		s.Attestations.WithLabelValues(gate, result).Inc()
	}
}

// Forget takes away the series of a Gate that was deleted.
func (s *Set) Forget(gate string) {
	s.gates.Lock()
	defer s.gates.Unlock()
	s.Attestations.DeletePartialMatch(prometheus.Labels{"gate": gate})
}
