package report

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// Markdown writes a run for the summary of a job or a comment: the counts, and each
// object that is not simply allowed, with what was exempted. Whatever is not ours stands in code spans, where
// neither Markdown nor HTML is read, and nobody is mentioned.
func Markdown(w io.Writer, r Run) error {
	var b strings.Builder
	c := r.Counts()
	b.WriteString("## Sluice\n\n| judged | allowed | with warnings | denied | undecided | faults |\n| ---: | ---: | ---: | ---: | ---: | ---: |\n")
	fmt.Fprintf(&b, "| %d | %d | %d | %d | %d | %d |\n", len(r.Judged),
		c[gate.OutcomeAllow], c[gate.OutcomeWarn], c[gate.OutcomeDeny], c[gate.OutcomeError], len(r.Faults))
	r.findings(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// MarkdownFindings is Markdown without the counts.
func MarkdownFindings(w io.Writer, r Run) error {
	var b strings.Builder
	r.findings(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Run) findings(b *strings.Builder) {
	for _, j := range r.Judged {
		for _, v := range j.Verdicts {
			one := j
			one.Verdicts = []gate.Verdict{v}
			entries, exempts := r.entries(one), j.exempts(v)
			if len(entries)+len(exempts) == 0 {
				continue
			}
			fmt.Fprintf(b, "\n### %s %s\n\n", marks[v.Outcome], Span(title(v)))
			for _, e := range entries {
				markdownFinding(b, e)
			}
			for _, e := range exempts {
				fmt.Fprintf(b, "- **%s** at %s\n  - at: %s\n  - what: %s\n  - by: %s until %s\n  - because: %s\n", Span("exempted "+e.Policy), Span(e.place.String()),
					Span(e.where()), Span(e.Message), Span(e.Name), Span(e.Expires), Span(e.Reason))
			}
		}
	}
	if len(r.Faults) > 0 {
		b.WriteString("\n### Faults of the input\n\n")
	}
	for _, f := range r.Faults {
		fmt.Fprintf(b, "- %s at %s\n  - %s\n", Span(f.Rule), Span(f.Place.String()), Span(f.Message))
	}
}

func markdownFinding(b *strings.Builder, e entry) {
	fmt.Fprintf(b, "- **%s** at %s\n", Span(e.finding.Severity+" "+e.finding.Policy), Span(e.place.String()))
	fmt.Fprintf(b, "  - at: %s\n  - what: %s\n", Span(e.where()), Span(e.finding.Message))
	if e.finding.Remedy != "" {
		fmt.Fprintf(b, "  - to do: %s\n", Span(e.finding.Remedy))
	}
	if e.docs != "" {
		fmt.Fprintf(b, "  - docs: %s\n", link(e.docs))
	}
}

// address is a URL that needs no escape.
var address = regexp.MustCompile(`^https://[A-Za-z0-9][A-Za-z0-9./#_-]*$`)

// link is an address to follow; what is none stays a code span.
func link(text string) string {
	if address.MatchString(text) {
		return "<" + text + ">"
	}
	return Span(text)
}

// Span is a text as a code span: the fence is longer than any run of backticks in it, and
// the spaces inside keep a backtick at the edge from joining the fence.
func Span(text string) string {
	text = strings.TrimSpace(clean(text))
	if text == "" {
		return "`-`"
	}
	longest, run := 0, 0
	for _, c := range text {
		if c != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	if longest == 0 {
		return fence + text + fence
	}
	return fence + " " + text + " " + fence
}
