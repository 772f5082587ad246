package standing

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Table writes rows in columns. It remembers how wide they are, so that rows can follow.
type Table struct {
	w      io.Writer
	widths []int
}

// NewTable writes the header, with columns wide enough for the rows that are known.
func NewTable(w io.Writer, rows []Row) (*Table, error) {
	t := &Table{w: w, widths: make([]int, len(header))}
	for _, cells := range append([][]string{header}, cellsOf(rows)...) {
		for i, cell := range cells {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	return t, t.write(header)
}

func cellsOf(rows []Row) [][]string {
	var out [][]string
	for _, r := range rows {
		out = append(out, r.cells())
	}
	return out
}

// Row writes one.
func (t *Table) Row(r Row) error { return t.write(r.cells()) }

func (t *Table) write(cells []string) error {
	var line strings.Builder
	for i, cell := range cells {
		line.WriteString(cell)
		line.WriteString(strings.Repeat(" ", max(t.widths[i]-utf8.RuneCountInString(cell), 0)+3))
	}
	_, err := fmt.Fprintln(t.w, strings.TrimRight(redact.Text(line.String(), limits.ErrorBytes), " "))
	return err
}

// Text writes an explanation for a person; now is the time that events are told by.
func (e Explanation) Text(w io.Writer, now time.Time) error {
	p := paper{w: w}
	p.line(0, "%s", e.Summary)
	if e.Gate != "" || e.Verdict != "" {
		p.line(0, "")
		p.line(0, "Gate %s: %s", orDash(e.Gate), orDash(e.Verdict))
	}
	for _, v := range e.Violations {
		p.line(1, "[%s] %s", v.Severity, v.Policy)
		p.line(2, "at:    %s %s", v.Object, v.Path)
		p.line(2, "what:  %s", v.Message)
		if v.Remedy != "" {
			p.line(2, "to do: %s", v.Remedy)
		}
	}
	if e.Digest != "" {
		p.section("Image")
		p.line(1, "%s, signed by %s", e.Digest, orDash(e.Signer))
	}
	p.list("Conditions", len(e.Waits))
	for _, c := range e.Waits {
		p.line(1, "%s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
	}
	p.list("Children that are not healthy", len(e.Children))
	for _, c := range e.Children {
		p.line(1, "%s/%s is %s", c.Kind, c.Name, c.Health)
	}
	p.list("Drift", len(e.Changes))
	for _, c := range e.Changes {
		p.line(1, "%s %s: %s", c.Object, c.Path, c.Change)
	}
	if r := e.Rollout; r != nil {
		p.section("Rollout")
		p.line(1, "step %d of %d, from %s to %s", r.Step, r.Steps, orDash(r.StableDigest), orDash(r.CurrentDigest))
		if r.FailedDigest != "" {
			p.line(1, "failed: %s is not tried again before the spec changes", r.FailedDigest)
		}
		if r.Message != "" {
			p.line(1, "%s", r.Message)
		}
	}
	p.list("Last events", len(e.Events))
	for _, h := range e.Events {
		p.line(1, "%s ago %s %s (%d): %s", now.Sub(h.At.Time).Round(time.Second), h.Type, h.Reason, h.Count, h.Message)
	}
	return p.err
}

// paper keeps the first error of its writer, and what is printed safe to print.
type paper struct {
	w   io.Writer
	err error
}

func (p *paper) line(depth int, format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.Repeat("  ", depth)+redact.Text(strings.TrimRight(fmt.Sprintf(format, args...), " "), limits.ErrorBytes))
	}
}

func (p *paper) section(name string) {
	p.line(0, "")
	p.line(0, "%s:", name)
}

func (p *paper) list(name string, entries int) {
	if entries > 0 {
		p.section(name)
	}
}
