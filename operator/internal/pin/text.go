package pin

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// lineStarts are the offsets of a text's lines, as the YAML scanner counts them.
func lineStarts(raw []byte) []int {
	starts := []int{0}
	for i := 0; i < len(raw); {
		n := lineBreak(raw[i:])
		if n > 0 {
			starts = append(starts, i+n)
		}
		i += max(n, 1)
	}
	return starts
}

// lineBreak is how many bytes of a line break a text begins with.
func lineBreak(raw []byte) int {
	for _, end := range []string{"\r\n", "\n", "\r", "\u0085", "\u2028", "\u2029"} {
		if bytes.HasPrefix(raw, []byte(end)) {
			return len(end)
		}
	}
	return 0
}

// offset of a node. The scanner counts columns in characters.
func (p *page) offset(n *yaml.Node) (int, error) {
	if n.Line < 1 || n.Line > len(p.lines) {
		return 0, p.refused(n, "its place in the text is not found")
	}
	at := p.lines[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(p.raw[at:])
		if size == 0 {
			return 0, p.refused(n, "its place in the text is not found")
		}
		at += size
	}
	return at, nil
}

// lineEnd is where the line that holds an offset ends, before its break.
func (p *page) lineEnd(at int) int {
	for at < len(p.raw) && lineBreak(p.raw[at:]) == 0 {
		at++
	}
	return at
}

// lineStart is where the line that holds an offset starts.
func (p *page) lineStart(at int) int {
	start := 0
	for _, s := range p.lines {
		if s > at {
			break
		}
		start = s
	}
	return start
}

// eol is the line break of the page.
func (p *page) eol() string {
	end := p.lineEnd(0)
	if n := lineBreak(p.raw[end:]); n > 0 {
		return string(p.raw[end : end+n])
	}
	return "\n"
}

// content is where a scalar itself begins, after its anchor and tag.
func (p *page) content(n *yaml.Node) (int, error) {
	at, err := p.offset(n)
	if err != nil {
		return 0, err
	}
	for at < len(p.raw) {
		switch c := p.raw[at]; {
		case c == '&' || c == '!':
			for at < len(p.raw) && !strings.ContainsRune(" \t\r\n", rune(p.raw[at])) {
				at++
			}
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			at++
		case c == '#':
			at = p.lineEnd(at)
		default:
			return at, nil
		}
	}
	return at, nil
}

// extent is where a scalar's value is in the text: for every byte of the value, and for its
// end, the offset that it comes from.
type extent struct {
	at []int
	// quote that it is written in, 0 for none.
	quote byte
	// start and end of all that is written, quotes included; of a block its text only.
	start, end int
}

// extent finds a scalar in the text. What cannot be told apart byte by byte, such as lines
// that are folded into one, is refused.
func (p *page) extent(n *yaml.Node) (extent, error) {
	if known, ok := p.extents[n]; ok {
		return known, nil
	}
	start, err := p.content(n)
	if err != nil {
		return extent{}, err
	}
	var e extent
	var ok bool
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		e, ok = p.block(n.Value, start)
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		e, ok = p.quoted(n.Value, start)
	default:
		e, ok = p.plain(n.Value, start)
	}
	if !ok {
		return extent{}, p.refused(n, "it is written over several lines, or with escapes that are not followed; write it on one line, or a patch as a block (|)")
	}
	p.extents[n] = e
	return e, nil
}

func (p *page) plain(value string, start int) (extent, bool) {
	if !bytes.HasPrefix(p.raw[start:], []byte(value)) {
		return extent{}, false
	}
	e := extent{start: start, end: start + len(value)}
	for i := range len(value) + 1 {
		e.at = append(e.at, start+i)
	}
	return e, true
}

func (p *page) quoted(value string, start int) (extent, bool) {
	if start >= len(p.raw) {
		return extent{}, false
	}
	e := extent{quote: p.raw[start], start: start}
	at := start + 1
	for len(e.at) < len(value) {
		text, size := unescape(p.raw[at:], e.quote)
		if size == 0 || !strings.HasPrefix(value[len(e.at):], text) {
			return extent{}, false
		}
		for range len(text) {
			e.at = append(e.at, at)
		}
		at += size
	}
	if at >= len(p.raw) || p.raw[at] != e.quote {
		return extent{}, false
	}
	e.at, e.end = append(e.at, at), at+1
	return e, true
}

// unescape reads one character of a quoted text; size 0: it is not understood.
func unescape(raw []byte, quote byte) (text string, size int) {
	switch {
	case len(raw) == 0 || lineBreak(raw) > 0:
		return "", 0
	case quote == '\'' && raw[0] == '\'':
		return "'", 2
	case quote != '"' || raw[0] != '\\':
		_, size := utf8.DecodeRune(raw)
		return string(raw[:size]), size
	case len(raw) < 2:
		return "", 0
	}
	if text, ok := map[byte]string{'"': `"`, '\\': `\`, '/': "/", 'n': "\n", 't': "\t", 'r': "\r", ' ': " "}[raw[1]]; ok {
		return text, 2
	}
	if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[raw[1]]; digits > 0 && len(raw) >= 2+digits {
		if code, err := strconv.ParseUint(string(raw[2:2+digits]), 16, 32); err == nil {
			return string(rune(code)), 2 + digits
		}
	}
	return "", 0
}

// block aligns a block's value with its lines. Lines that are folded do not align.
func (p *page) block(value string, header int) (extent, bool) {
	first := p.lineEnd(header)
	first += lineBreak(p.raw[first:])
	spaces := p.indent(first)
	// Where the header gives the indentation, further spaces are text.
	for indent := spaces; indent > 0; indent-- {
		if e, ok := p.aligned(value, first, indent); ok {
			return e, true
		}
	}
	return extent{}, false
}

// indent is that of the first line with text, from an offset on.
func (p *page) indent(at int) int {
	for at < len(p.raw) {
		end := p.lineEnd(at)
		if line := p.raw[at:end]; len(bytes.TrimLeft(line, " ")) > 0 {
			return len(line) - len(bytes.TrimLeft(line, " "))
		}
		at = end + lineBreak(p.raw[end:])
		if at == end {
			break
		}
	}
	return 0
}

func (p *page) aligned(value string, at, indent int) (extent, bool) {
	e := extent{start: -1}
	for len(e.at) < len(value) {
		end := p.lineEnd(at)
		text := at + min(indent, end-at)
		if len(bytes.TrimLeft(p.raw[at:text], " ")) > 0 {
			return extent{}, false
		}
		if e.start < 0 {
			e.start = text
		}
		rest := value[len(e.at):]
		line, _, broken := strings.Cut(rest, "\n")
		if string(p.raw[text:end]) != line {
			return extent{}, false
		}
		for i := range len(line) {
			e.at = append(e.at, text+i)
		}
		e.end = end
		if broken {
			e.at = append(e.at, end)
		}
		size := lineBreak(p.raw[end:])
		if at = end + size; size == 0 {
			if broken && len(e.at) < len(value) {
				return extent{}, false
			}
			at = end
		}
	}
	e.at = append(e.at, e.end)
	return e, len(value) > 0
}

// written is a text as it stands in quotes, or in none.
func (e extent) written(text string) string {
	switch e.quote {
	case '"':
		return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)
	case '\'':
		return strings.ReplaceAll(text, "'", "''")
	}
	return text
}

// words that some readers of YAML take for a truth value.
var words = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true}

// scalar writes a text as a value, in quotes where it would be read as something else.
func scalar(text string) string {
	var n yaml.Node
	err := yaml.Unmarshal([]byte(text), &n)
	if err == nil && len(n.Content) == 1 && n.Content[0].Kind == yaml.ScalarNode && n.Content[0].ShortTag() == "!!str" &&
		n.Content[0].Value == text && !words[strings.ToLower(text)] && !sexagesimal(text) {
		return text
	}
	return fmt.Sprintf(`"%s"`, extent{quote: '"'}.written(text))
}

// sexagesimal says that YAML 1.1 has a number for it, such as 1:20.
func sexagesimal(text string) bool {
	return strings.Contains(text, ":") && strings.Trim(text, "0123456789_:.+-") == ""
}
