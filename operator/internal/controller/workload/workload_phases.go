package workload

import (
	"context"
	"fmt"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// respectPause stops before anything is judged or written.
func (r *Reconciler) respectPause(_ context.Context, s *scope) error {
	if s.workload.Spec.Paused {
		return &obstacle{kind: waiting, reason: reasonPaused, message: "spec.paused is set: children are left as they are"}
	}
	return nil
}

// judge asks the gate. A denied update ends the reconcile here, so what was running stays
// running; see enforce for when what runs is itself denied.
func (r *Reconciler) judge(ctx context.Context, s *scope) error {
	start := r.Now()
	w, known := s.workload, resolvedBefore(s)
	if s.release.back {
		w, known = s.release.stable.workload(w), s.release.stable.Digests
	}
	j := r.Judge.Workload(ctx, w, known)
	if s.release.back && gate.Worst(j.Verdicts).Outcome == gate.OutcomeDeny && !s.wentBack() {
		// The way back is barred: what is told is about the spec. Once the stable revision runs,
		// it is denied as any other, and what failed does not return for that.
		s.release.back = false
		j = r.Judge.Workload(ctx, s.workload, resolvedBefore(s))
	}
	s.judgement = &j
	s.expire()
	worst := gate.Worst(j.Verdicts)
	r.Metrics.DecisionSeconds.WithLabelValues("reconcile").Observe(r.Now().Sub(start).Seconds())
	r.Metrics.Verdicts.WithLabelValues("reconcile", string(worst.Outcome)).Inc()
	if r.observe != nil {
		for _, v := range j.Verdicts {
			r.observe(v)
		}
	}
	if !j.Blocked() {
		s.memory.denied = time.Time{}
		return nil
	}
	logf.FromContext(ctx).Info("Gate blocks the workload", "gate", worst.Gate, "verdict", string(worst.Outcome), "violations", len(worst.Violations))
	if worst.Outcome == gate.OutcomeDeny {
		return r.enforce(ctx, s, &obstacle{kind: terminal, reason: reasonDenied, message: explain(worst)})
	}
	return &obstacle{kind: undecided, reason: reasonUndecided, message: explain(worst)}
}

// explain is a blocking verdict in one line. Where a rule says no, what could not be
// decided besides is not the reason.
func explain(v gate.Verdict) string {
	if len(v.Violations) == 0 {
		return "no reason was given"
	}
	first := v.Violations[0]
	for _, f := range v.Violations {
		if (f.Severity == gate.SeverityError) == (v.Outcome == gate.OutcomeError) {
			first = f
			break
		}
	}
	text := fmt.Sprintf("%s: %s: %s", first.Policy, at(first), first.Message)
	if first.Remedy != "" {
		text += " (" + first.Remedy + ")"
	}
	if more := len(v.Violations) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more in status.gate.violations", more)
	}
	return text
}

func at(f gate.Finding) string {
	if f.Path == "" {
		return f.Object
	}
	return f.Object + " " + f.Path
}
