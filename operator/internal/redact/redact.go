// Package redact makes text from users safe to print: in logs, events, conditions
// and on a terminal.
package redact

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s on one line, without control characters and terminal escapes, cut to
// at most limit bytes with "…" at the cut. Offending runes are shown as Go escapes, so
// that a forged line break is visible and not obeyed.
func Text(s string, limit int) string {
	if clean(s) && len(s) <= limit {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		piece := string(r)
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			quoted := strconv.QuoteRune(r)
			piece = quoted[1 : len(quoted)-1]
		}
		if b.Len()+len(piece) > limit {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
	}
	return b.String()
}

func clean(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
