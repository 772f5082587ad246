package workload

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

// expire looks again when the first exemption ends that lets this Workload through: that
// is no event. Never sooner than in a second, should the clocks differ.
func (s *scope) expire() {
	if until := s.judgement.Until; !until.IsZero() {
		s.lookAgain(max(time.Second, until.Sub(s.now)))
	}
}

// exemptedCondition is Gated where what does not block was exempted; false where nothing
// was.
func exemptedCondition(verdicts []gate.Verdict) (metav1.Condition, bool) {
	var all []gate.Exempted
	for _, v := range verdicts {
		all = append(all, v.Exemptions...)
	}
	if len(all) == 0 || gate.Worst(verdicts).Outcome.Blocks() {
		return metav1.Condition{}, false
	}
	message := allowing(verdicts) + "; " + report.Exemption(all[0])
	if more := len(all) - 1; more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	return condition(v1beta1.ConditionGated, metav1.ConditionTrue, reasonExempted, message), true
}
