package cli

import (
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

// checked is what a check came to.
type checked struct {
	judged []judgedObject
	// refused is what the cluster would refuse whatever the verdicts are, and wrong what an
	// overlay does not do although it says so.
	refused, wrong []report.Fault
	// warnings are those of the sources, in order; told are the lines that were said beside
	// the verdicts.
	warnings []string
	told     string
}

// judgedObject is one object, with the places of what was found.
type judgedObject struct {
	report.Judged
	places map[gate.Finding]report.Place
}

func (c *checked) add(results []result) {
	for _, r := range results {
		c.judged = append(c.judged, r.judgedObject())
	}
}

// judgedObject is what the report needs of a result.
func (r result) judgedObject() judgedObject {
	out := judgedObject{Judged: report.Judged{File: r.file, Verdicts: r.verdicts}, places: r.places}
	if out.places != nil {
		out.Place = func(f gate.Finding) report.Place { return out.places[f] }
	}
	return out
}

// run is the result for the encoders.
func (c *checked) run() report.Run {
	run := report.Run{Version: version(), Docs: docs, About: about, Faults: append(append([]report.Fault(nil), c.refused...), c.wrong...)}
	for _, j := range c.judged {
		run.Judged = append(run.Judged, j.Judged)
	}
	return run
}

// kept is a result, and all else that it depends on.
type kept struct {
	// Seen of each source, in order.
	Seen []*overlay.Seen
	// From and Until are the time in which the same would be decided, in seconds since 1970;
	// 0 is no end.
	From, Until    int64
	Facts          []fact
	Judged         []keptObject
	Refused, Wrong []report.Fault
	Warnings       []string `json:",omitempty"`
	Told           string
}

type keptObject struct {
	File     string
	Verdicts []gate.Verdict
	// Places by the number of the finding among all of the object's.
	Places map[int]report.Place `json:",omitempty"`
}

func (was *kept) at(now time.Time) bool {
	return now.Unix() >= was.From && (was.Until == 0 || now.Unix() < was.Until)
}

func (c *checked) kept() *kept {
	out := &kept{Refused: c.refused, Wrong: c.wrong, Warnings: c.warnings, Told: c.told}
	for _, j := range c.judged {
		o := keptObject{File: j.File, Verdicts: j.Verdicts, Places: map[int]report.Place{}}
		for i, f := range findings(j.Verdicts) {
			if place, ok := j.places[f]; ok {
				o.Places[i] = place
			}
		}
		out.Judged = append(out.Judged, o)
	}
	return out
}

func (was *kept) checked() *checked {
	out := &checked{refused: was.Refused, wrong: was.Wrong, warnings: was.Warnings, told: was.Told}
	for _, o := range was.Judged {
		r := result{file: o.File, verdicts: o.Verdicts, places: map[gate.Finding]report.Place{}}
		for i, f := range findings(o.Verdicts) {
			if place, ok := o.Places[i]; ok {
				r.places[f] = place
			}
		}
		out.judged = append(out.judged, r.judgedObject())
	}
	return out
}

// findings of all verdicts, in order, with those that were exempted.
func findings(verdicts []gate.Verdict) []gate.Finding {
	var out []gate.Finding
	for _, v := range verdicts {
		out = append(append(out, v.Violations...), v.Warnings...)
		for _, e := range v.Exemptions {
			out = append(out, e.Finding())
		}
	}
	return out
}

// undecided says whether a check could not decide, whatever the Gate's mode makes of that:
// the next time it may.
func undecided(v gate.Verdict) bool {
	for _, f := range v.Violations {
		if f.Severity == gate.SeverityError {
			return true
		}
	}
	return v.Outcome == gate.OutcomeError
}
