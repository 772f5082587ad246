package report

import (
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// Exemption is one finding that was exempted, by what, until when and why.
func Exemption(e gate.Exempted) string {
	line := fmt.Sprintf("exempted by %s until %s because %q: %s", e.Name, e.Expires, e.Reason,
		Line(e.Finding()))
	if e.Image != "" {
		line += " (image " + e.Image + ")"
	}
	return line
}

// exemptions warns of what a Gate would have denied.
func exemptions(v gate.Verdict) []string {
	var out []string
	for _, e := range v.Exemptions {
		out = append(out, "gate "+v.Gate+": "+Exemption(e))
	}
	return out
}

// exempt is one finding that was exempted, and where the source has it.
type exempt struct {
	gate.Exempted
	place Place
}

// exempts are those of one verdict over an object.
func (j Judged) exempts(v gate.Verdict) []exempt {
	var all []exempt
	for _, x := range v.Exemptions {
		e := exempt{Exempted: x, place: Place{File: j.File}}
		if j.Place != nil {
			e.place = j.Place(x.Finding())
		}
		all = append(all, e)
	}
	return all
}

func (e exempt) where() string {
	if e.Path == "" {
		return e.Object
	}
	return e.Object + " " + e.Path
}

// exempted writes what was exempted below a verdict.
func exempted(b *strings.Builder, v gate.Verdict) {
	for _, e := range v.Exemptions {
		where := e.Object
		if e.Path != "" {
			where += " " + e.Path
		}
		fmt.Fprintf(b, "      [exempted] %s\n        at:    %s\n        what:  %s\n", clean(e.Policy), clean(where), clean(e.Message))
		if e.Image != "" {
			fmt.Fprintf(b, "        image: %s\n", clean(e.Image))
		}
		fmt.Fprintf(b, "        by:    %s until %s because %q\n", clean(e.Name), clean(e.Expires), e.Reason)
	}
}
