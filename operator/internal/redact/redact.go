// Package redact makes text from users safe to print: in logs, events, conditions
// and on a terminal.
package redact

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const cut = "…"

// command begins one for Azure Pipelines, TeamCity and, as it once was, GitHub Actions.
var command = regexp.MustCompile(`##([A-Za-z]*\[)`)

// Text returns s on one line, without control characters, terminal escapes and marks
// that turn the direction of text, in at most limit bytes; "…" stands at the cut, and
// counts. Offending runes are shown as Go escapes, so that a forged line break is
// visible and not obeyed. So is the second # of ##vso[ and ##[, which CI systems obey
// wherever they stand in a line of a log. What Text returned it returns unchanged.
func Text(s string, limit int) string {
	if strings.Contains(s, "##") {
		s = command.ReplaceAllString(s, `#\x23$1`)
	}
	if len(s) <= limit && clean(s) {
		return s
	}
	var b strings.Builder
	// whole is how much of b still leaves room for the mark of a cut.
	whole := 0
	for _, r := range s {
		if b.Len() <= limit-len(cut) {
			whole = b.Len()
		}
		piece := string(r)
		if !unicode.IsPrint(r) {
			quoted := strconv.QuoteRune(r)
			piece = quoted[1 : len(quoted)-1]
		}
		if b.Len()+len(piece) > limit {
			if limit < len(cut) {
				return ""
			}
			return b.String()[:whole] + cut
		}
		b.WriteString(piece)
	}
	return b.String()
}

// Obeyed says whether a CI system that shows a line in its log may take it, or part of it,
// for a command: ::name:: at its start, with or without spaces before it, and ##[ and the
// like anywhere.
func Obeyed(line string) bool {
	return command.MatchString(line) || strings.HasPrefix(strings.TrimLeftFunc(line, unicode.IsSpace), "::")
}

// Line is Text for a line that may begin with what is not ours: of :: at its start, the
// first colon is shown as an escape too.
func Line(s string, limit int) string {
	if start := strings.TrimLeft(s, " \t"); strings.HasPrefix(start, "::") {
		s = s[:len(s)-len(start)] + `\x3a` + start[1:]
	}
	return Text(s, limit)
}

// clean also finds bytes that are not UTF-8.
func clean(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}
