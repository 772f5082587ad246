package cli

import (
	"fmt"
	"slices"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/promotion"
)

// denied says whether the verdict stands in the way.
func (p *promoting) denied() error {
	switch outcome := p.text.Outcome(); {
	case !outcome.Blocks():
		return nil
	case outcome == gate.OutcomeDeny:
		refusal := fmt.Errorf("the gate of %s denies it", p.to)
		if awaited := p.awaited(); len(awaited) > 0 {
			return p.notYet(refusal, awaited...)
		}
		return &exit{code: ExitDenied, err: refusal}
	}
	return &exit{code: ExitUndecided, err: fmt.Errorf("the gate of %s could not decide on it", p.to)}
}

// notYet refuses what waits for something that comes without anybody's doing. It is never
// nil: nothing is committed, whatever the exit code.
func (p *promoting) notYet(refusal error, why ...string) error {
	p.out.NotYet = why
	if p.notYetOK {
		return &exit{code: ExitPass}
	}
	return &exit{code: ExitDenied, err: refusal}
}

// awaited is the evidence that the promotion waits for, where nothing else is found amiss.
// Evidence that is there and does not count is amiss: it does not get better by waiting. So
// is an image that was named by hand, which nobody may ever have run in the environment before.
func (p *promoting) awaited() []string {
	if p.image != "" {
		return nil
	}
	var out []string
	for _, judged := range p.text.Judged.Judged {
		for _, v := range judged.Verdicts {
			if !v.Outcome.Blocks() {
				continue
			}
			for _, f := range v.Violations {
				environment, ok := promotion.Awaited(f)
				if !ok {
					return nil
				}
				out = append(out, fmt.Sprintf("%s has no evidence of environment %s; its condition Promoted there says how far it is", v.Object, environment))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
