package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

var marks = map[gate.Outcome]string{
	gate.OutcomeAllow: "PASS", gate.OutcomeWarn: "WARN", gate.OutcomeDeny: "DENY", gate.OutcomeError: "ERROR",
}

// colours are the terminal's codes for the marks, and those for what stands beside.
var colours = map[gate.Outcome]string{
	gate.OutcomeAllow: "32", gate.OutcomeWarn: "33", gate.OutcomeDeny: "31;1", gate.OutcomeError: "35;1",
}

const (
	bold = "1"
	dim  = "2"
)

// Text writes for a person: each object with its findings, where the source has them,
// what to do and where to read on, and the counts below.
type Text struct {
	// Colour uses the terminal's colours.
	Colour bool
}

// Write writes a whole run.
func (t Text) Write(w io.Writer, r Run) error {
	var b strings.Builder
	for _, j := range r.Judged {
		t.judged(&b, r, j)
	}
	b.WriteString(r.Summary() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// Object writes one object without the counts.
func (t Text) Object(w io.Writer, j Judged) error {
	var b strings.Builder
	t.judged(&b, Run{}, j)
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Text) judged(b *strings.Builder, r Run, j Judged) {
	for _, v := range j.Verdicts {
		fmt.Fprintf(b, "%s %s: %s\n", t.paint(colours[v.Outcome], fmt.Sprintf("%-5s", marks[v.Outcome])), clean(j.File), title(v))
		for _, i := range v.Images {
			if i.Outcome == gate.ImageVerified {
				fmt.Fprintf(b, "      %s is signed by %s\n        %s\n", clean(i.Image), clean(i.Authority), clean(i.Digest))
			}
		}
		one := j
		one.Verdicts = []gate.Verdict{v}
		for _, e := range r.entries(one) {
			t.finding(b, e)
		}
		exempted(b, v)
	}
}

func (t Text) finding(b *strings.Builder, e entry) {
	fmt.Fprintf(b, "      [%s] %s\n        at:    %s\n", clean(e.finding.Severity), t.paint(bold, clean(e.finding.Policy)), clean(e.where()))
	if e.place.Line > 0 {
		field := clean(e.place.Field)
		if e.place.Note != "" {
			field = "(" + clean(e.place.Note) + ")"
		}
		fmt.Fprintf(b, "        where: %s\n", strings.TrimRight(e.place.String()+" "+field, " "))
		t.code(b, e.place)
	}
	fmt.Fprintf(b, "        what:  %s\n", clean(e.finding.Message))
	if e.finding.Remedy != "" {
		fmt.Fprintf(b, "        to do: %s\n", clean(e.finding.Remedy))
	}
	if e.docs != "" {
		fmt.Fprintf(b, "        docs:  %s\n", t.paint(dim, clean(e.docs)))
	}
}

// code writes the frame, with a caret under the column.
func (t Text) code(b *strings.Builder, p Place) {
	width := len(strconv.Itoa(p.First + len(p.Code)))
	for i, line := range p.Code {
		number := p.First + i
		fmt.Fprintf(b, "        %s %s\n", t.paint(dim, fmt.Sprintf("%*d |", width, number)), clean(line))
		if number == p.Line && p.Column > 0 && p.Column <= utf8.RuneCountInString(line)+1 {
			fmt.Fprintf(b, "        %s %s%s\n", t.paint(dim, strings.Repeat(" ", width)+" |"), strings.Repeat(" ", p.Column-1), t.paint("31;1", "^"))
		}
	}
}

func (t Text) paint(code, text string) string {
	if !t.Colour || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
