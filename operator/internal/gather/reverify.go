package gather

import (
	"time"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// interval is how soon a Gate wants what it allowed to be judged again.
func interval(g *v1beta1.Gate) time.Duration {
	if r := g.Spec.Reverify; r != nil && r.Interval != nil && r.Interval.Duration > 0 {
		return r.Interval.Duration
	}
	return limits.Reverify
}

func onFailure(g *v1beta1.Gate) v1beta1.OnFailure {
	if r := g.Spec.Reverify; r != nil {
		return r.OnFailure
	}
	return v1beta1.OnFailureReport
}

// strictness of what is done to a Workload that is denied; what is not known does nothing.
var strictness = map[v1beta1.OnFailure]int{v1beta1.OnFailureReport: 1, v1beta1.OnFailureFreeze: 2, v1beta1.OnFailureScaleToZero: 3}

// consequences is when the object is judged again at rest, by the most impatient of the
// Gates, and what a denial does to what runs, by the strictest of those that deny: one that
// allows has no say, nor has one that could not decide. An object that could not be judged,
// such as one that does not render any more, is only reported.
func consequences(s *subject, gates []read, verdicts []gate.Verdict) (again time.Duration, denied v1beta1.OnFailure) {
	denied = v1beta1.OnFailureReport
	for i, g := range gates {
		if again == 0 || g.again < again {
			again = g.again
		}
		if verdicts[i].Outcome == gate.OutcomeDeny && len(s.refused) == 0 && strictness[g.onFailure] > strictness[denied] {
			denied = g.onFailure
		}
	}
	return again, denied
}
