package report

import (
	"fmt"
	"io"
	"strings"
)

var githubLevels = map[level]string{note: "notice", warning: "warning", failure: "error"}

// In a workflow command % starts an escape, and a line break ends it; in its properties
// so do the colon and the comma.
var (
	githubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// GitHub writes a run as workflow commands, which GitHub shows beside the lines of the
// pull request, and the counts.
func GitHub(w io.Writer, r Run) error {
	var b strings.Builder
	for _, j := range r.Judged {
		for _, e := range r.entries(j) {
			message := e.text()
			if e.place.Note != "" {
				message += " (" + e.place.Note + ")"
			}
			annotation(&b, e.level, e.place, e.finding.Policy, message)
		}
		for _, v := range j.Verdicts {
			for _, e := range j.exempts(v) {
				annotation(&b, note, e.place, e.Policy+" exempted", Exemption(e.Exempted))
			}
		}
	}
	for _, f := range r.Faults {
		annotation(&b, failure, f.Place, f.Rule, f.Message)
	}
	b.WriteString(r.Summary() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func annotation(b *strings.Builder, l level, p Place, title, message string) {
	var properties []string
	add := func(key, value string) {
		properties = append(properties, key+"="+githubProperty.Replace(clean(value)))
	}
	// Standard input is no file of the repository.
	if p.File != "" && p.File != "-" {
		add("file", p.File)
		if p.Line > 0 {
			add("line", fmt.Sprint(p.Line))
		}
		if p.Column > 0 {
			add("col", fmt.Sprint(p.Column))
		}
	}
	add("title", "sluice: "+title)
	fmt.Fprintf(b, "::%s %s::%s\n", githubLevels[l], strings.Join(properties, ","), githubData.Replace(clean(message)))
}
