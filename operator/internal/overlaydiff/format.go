package overlaydiff

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// context is how many unchanged lines are shown around a change, as diff -u does.
const context = 3

// Unified writes the changes as diff -u would, in colour where that is asked for.
func Unified(w io.Writer, changes []Change, colour bool) error {
	p := page{w: w, colour: colour}
	for _, c := range changes {
		p.line('=', fmt.Sprintf("%s %s", c.Object, c.Kind))
		for _, h := range hunks(c.Lines) {
			p.line('@', h.head())
			for _, l := range h.lines {
				p.line(l.Op, string(l.Op)+l.Text)
			}
		}
	}
	return p.err
}

// page keeps the first error of its writer.
type page struct {
	w      io.Writer
	colour bool
	err    error
}

var colours = map[byte]string{'=': "\x1b[1m", '@': "\x1b[36m", '-': "\x1b[31m", '+': "\x1b[32m"}

func (p *page) line(op byte, text string) {
	if p.err != nil {
		return
	}
	if op != '|' { // which has colours in it, and columns that were made safe
		text = redact.Line(text, limits.SourceFileBytes)
	}
	if on, ok := colours[op]; ok && p.colour {
		text = on + text + "\x1b[0m"
	}
	_, p.err = fmt.Fprintln(p.w, text)
}

// hunk is a change with what stands around it.
type hunk struct {
	old, now int // line numbers, from 1
	lines    []Line
}

func (h hunk) head() string {
	var olds, news int
	for _, l := range h.lines {
		if l.Op != '+' {
			olds++
		}
		if l.Op != '-' {
			news++
		}
	}
	start := func(at, count int) int {
		if count == 0 {
			return at - 1
		}
		return at
	}
	return fmt.Sprintf("@@ -%d,%d +%d,%d @@", start(h.old, olds), olds, start(h.now, news), news)
}

func hunks(lines []Line) []hunk {
	var out []hunk
	old, now := 1, 1
	last := -1 // index behind the last line that is in a hunk
	for i, l := range lines {
		if near(lines, i) {
			if last != i {
				out = append(out, hunk{old: old, now: now})
			}
			h := &out[len(out)-1]
			h.lines = append(h.lines, l)
			last = i + 1
		}
		if l.Op != '+' {
			old++
		}
		if l.Op != '-' {
			now++
		}
	}
	return out
}

// near says whether a change is at most context lines away.
func near(lines []Line, i int) bool {
	for _, l := range lines[max(0, i-context):min(len(lines), i+context+1)] {
		if l.Op != ' ' {
			return true
		}
	}
	return false
}

// SideBySide writes the changes in two columns that are width characters together.
func SideBySide(w io.Writer, changes []Change, width int, colour bool) error {
	p := page{w: w, colour: colour}
	column := max((width-3)/2, 20)
	for _, c := range changes {
		p.line('=', fmt.Sprintf("%s %s", c.Object, c.Kind))
		for _, h := range hunks(c.Lines) {
			p.line('@', h.head())
			p.columns(h.lines, column)
		}
	}
	return p.err
}

// columns sets lines that go beside those that come for them.
func (p *page) columns(lines []Line, width int) {
	for i := 0; i < len(lines); {
		if lines[i].Op == ' ' {
			p.row(' ', lines[i].Text, lines[i].Text, width)
			i++
			continue
		}
		var gone, come []string
		for ; i < len(lines) && lines[i].Op != ' '; i++ {
			if lines[i].Op == '-' {
				gone = append(gone, lines[i].Text)
			} else {
				come = append(come, lines[i].Text)
			}
		}
		for j := range max(len(gone), len(come)) {
			switch {
			case j >= len(gone):
				p.row('>', "", come[j], width)
			case j >= len(come):
				p.row('<', gone[j], "", width)
			default:
				p.row('|', gone[j], come[j], width)
			}
		}
	}
}

func (p *page) row(mark byte, left, right string, width int) {
	left, right = fit(redact.Line(left, limits.SourceFileBytes), width), fit(redact.Line(right, limits.SourceFileBytes), width)
	left += strings.Repeat(" ", width-utf8.RuneCountInString(left))
	if p.colour && mark != ' ' {
		left, right = colours['-']+left+"\x1b[0m", colours['+']+right+"\x1b[0m"
	}
	p.line('|', strings.TrimRight(fmt.Sprintf("%s %c %s", left, mark, right), " "))
}

func fit(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// Markdown writes the changes for a pull request: a list, and below it each object in a
// fold. What does not go into limits.MarkdownBytes is counted.
func Markdown(w io.Writer, changes []Change) error {
	_, err := io.WriteString(w, MarkdownWithin(changes, limits.MarkdownBytes))
	return err
}

// MarkdownWithin is Markdown in about as many bytes as there is room for.
func MarkdownWithin(changes []Change, room int) string {
	var out strings.Builder
	counts := map[string]int{}
	for _, c := range changes {
		counts[c.Kind]++
	}
	fmt.Fprintf(&out, "**%d changed, %d added, %d removed**\n", counts[Changed], counts[Added], counts[Removed])
	for i, c := range changes {
		section := markdown(c)
		if out.Len()+len(section) > room {
			fmt.Fprintf(&out, "\n%d more objects differ; there is no room for them here. See `sluice diff`.\n", len(changes)-i)
			break
		}
		out.WriteString(section)
	}
	return out.String()
}

func markdown(c Change) string {
	var body strings.Builder
	for _, h := range hunks(c.Lines) {
		body.WriteString(h.head() + "\n")
		for _, l := range h.lines {
			body.WriteString(redact.Line(string(l.Op)+l.Text, limits.SourceFileBytes) + "\n")
		}
	}
	fence := strings.Repeat("`", max(3, longestRun(body.String(), '`')+1))
	// Names are not ours: neither HTML nor links of theirs belong in the page.
	name := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(c.Object)
	return fmt.Sprintf("\n<details><summary><code>%s</code> %s</summary>\n\n%sdiff\n%s%s\n\n</details>\n", name, c.Kind, fence, body.String(), fence)
}

func longestRun(s string, of rune) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != of {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
