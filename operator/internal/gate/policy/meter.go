package policy

import (
	"fmt"
	"sync/atomic"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// meter bounds the evaluation of one source. It stands where OPA asks, at every
// expression and inside its longer loops, whether to go on; counting the questions
// bounds work and memory, and at the same place on every machine.
//
// Only the evaluating goroutine calls Cancelled and charge; anyone may call Cancel.
type meter struct {
	stopped  atomic.Bool
	steps    int
	bytes    int
	exceeded string
}

// Cancel stops the evaluation at its next step.
func (m *meter) Cancel() { m.stopped.Store(true) }

// Cancelled counts a step and says whether to stop.
func (m *meter) Cancelled() bool {
	m.steps++
	if m.steps > limits.PolicySteps {
		m.exceed(fmt.Sprintf("it takes more than %d steps (limits.PolicySteps)", limits.PolicySteps))
	}
	return m.exceeded != "" || m.stopped.Load()
}

// charge accounts for what a function is about to make, or made, and returns an error
// once that is too much.
func (m *meter) charge(bytes int) error {
	if bytes < 0 || bytes > limits.PolicyBuiltinBytes-m.bytes {
		m.exceed(fmt.Sprintf("its functions and values make more than %d bytes (limits.PolicyBuiltinBytes)", limits.PolicyBuiltinBytes))
		return errTooLarge
	}
	m.bytes += bytes
	return nil
}

// restart counts from the start again; what was cancelled stays cancelled.
func (m *meter) restart() { m.steps, m.bytes, m.exceeded = 0, 0, "" }

func (m *meter) exceed(reason string) {
	if m.exceeded == "" {
		m.exceeded = reason
	}
}
