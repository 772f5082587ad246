package report

import (
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Run is what one call of the command judged. Encoders write it; none of them trusts a
// text in it to be clean.
type Run struct {
	// Version of the command.
	Version string
	Judged  []Judged
	// Faults are what is wrong with the input as a whole, beside all verdicts.
	Faults []Fault
	// Docs says where a policy is documented, as a URL; nil or "" for nowhere.
	Docs func(policy string) string
	// About says what a policy is, for those of which it is known; nil for none.
	About func(policy string) About
}

// About is a policy in words: a title, what it demands, and what to do where it is broken.
type About struct{ Title, Description, Remedy string }

// Judged is one object with its verdicts.
type Judged struct {
	// File that the object came from, as the user would name it.
	File     string
	Verdicts []gate.Verdict
	// Place finds where the source has what a finding is about; nil: nothing is known but
	// the file.
	Place func(gate.Finding) Place
}

// Fault is something that no gate decides on, and that is wrong all the same: a cycle of
// dependencies, or a transformer that reaches nothing.
type Fault struct {
	// Rule is one word for its kind.
	Rule    string
	Message string
	Place   Place
}

// Place is where something was written.
type Place struct {
	// File as the user would name it.
	File string
	// Line and Column, from 1; 0 when only the file is known.
	Line, Column int
	// Field of the document at Line, such as images[0].newTag of a kustomization.
	Field string
	// Note says why the place is another than the field's own; "" when it is that.
	Note string
	// Code is the text around Line, from line First on. Secrets are masked in it.
	Code  []string
	First int
}

// String is file:line:column, as far as it is known.
func (p Place) String() string {
	text := clean(p.File)
	if p.Line > 0 {
		text += fmt.Sprintf(":%d", p.Line)
		if p.Column > 0 {
			text += fmt.Sprintf(":%d", p.Column)
		}
	}
	return text
}

// level says how much a finding weighs, by what its verdict does about it.
type level int

const (
	note level = iota
	warning
	failure
)

// entry is one finding in its context.
type entry struct {
	finding gate.Finding
	verdict gate.Verdict
	level   level
	place   Place
	docs    string
}

// entries of one object, verdict by verdict.
func (r Run) entries(j Judged) []entry {
	var all []entry
	add := func(v gate.Verdict, findings []gate.Finding, l level) {
		for _, f := range findings {
			e := entry{finding: f, verdict: v, level: l, place: Place{File: j.File}}
			if j.Place != nil {
				e.place = j.Place(f)
			}
			if r.Docs != nil {
				e.docs = r.Docs(f.Policy)
			}
			all = append(all, e)
		}
	}
	for _, v := range j.Verdicts {
		blocking, told := failure, warning
		switch v.Outcome {
		case gate.OutcomeAllow:
			// A Gate in mode Audit only records what it found.
			blocking, told = note, note
		case gate.OutcomeWarn:
			blocking = warning
		}
		add(v, v.Violations, blocking)
		add(v, v.Warnings, told)
	}
	return all
}

// where is the object and path of a finding.
func (e entry) where() string {
	if e.finding.Path == "" {
		return e.finding.Object
	}
	return e.finding.Object + " " + e.finding.Path
}

// text of a finding on one line, with what to do.
func (e entry) text() string {
	text := e.where() + ": " + e.finding.Message
	if e.finding.Remedy != "" {
		text += "; to do: " + e.finding.Remedy
	}
	return text
}

// Counts is how many objects there are by the worst that was decided over each.
func (r Run) Counts() map[gate.Outcome]int {
	counts := map[gate.Outcome]int{}
	for _, j := range r.Judged {
		counts[gate.Worst(j.Verdicts).Outcome]++
	}
	return counts
}

// Summary is the counts in one line.
func (r Run) Summary() string {
	c := r.Counts()
	line := fmt.Sprintf("%d judged: %d allowed, %d with warnings, %d denied, %d undecided", len(r.Judged),
		c[gate.OutcomeAllow], c[gate.OutcomeWarn], c[gate.OutcomeDeny], c[gate.OutcomeError])
	if len(r.Faults) > 0 {
		line += fmt.Sprintf("; %d faults of the input", len(r.Faults))
	}
	return line
}

// clean is a text on one line without anything that a terminal obeys. What the gate says
// is clean already; names of files and lines of code are not.
func clean(text string) string { return redact.Text(text, limits.ErrorBytes) }

// title names a verdict: the object, and the Gate that judged it.
func title(v gate.Verdict) string {
	if v.Gate == "" {
		return clean(v.Object.String())
	}
	return clean(v.Object.String() + " (gate " + v.Gate + ")")
}

// oneLine joins what is there.
func oneLine(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return clean(strings.Join(kept, " "))
}
