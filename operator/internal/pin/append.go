package pin

import (
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// append adds an entry to images of a kustomization, and returns the line that it is in.
func (p *page) append(fields []string) (int, error) {
	if len(p.documents) != 1 || len(p.documents[0].Content) != 1 || p.documents[0].Content[0].Kind != yaml.MappingNode {
		return 0, p.refused(&yaml.Node{Line: 1}, "a kustomization has to be one mapping: add an entry of images by hand")
	}
	root := p.documents[0].Content[0]
	key, list := member(root, "images")
	entry := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: nodes(fields...)}
	switch {
	case key == nil:
		return p.addList(root, entry, fields)
	case list.Kind != yaml.SequenceNode || len(list.Content) == 0 && list.Style&yaml.FlowStyle == 0 || p.users[list] != nil:
		return 0, p.refused(list, "images is no list of its own: add an entry by hand")
	}
	line, err := p.addEntry(list, fields)
	list.Content = append(list.Content, entry)
	return line, err
}

// addList adds images as the last field.
func (p *page) addList(root, entry *yaml.Node, fields []string) (int, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{entry}}
	if root.Style&yaml.FlowStyle != 0 {
		at, line, err := p.insideEnd(root)
		if err != nil {
			return 0, err
		}
		key := "images"
		if p.json {
			key = strconv.Quote(key)
		}
		p.splices = append(p.splices, splice{at, at, ", " + key + ": [{" + p.pairs(", ", fields...) + "}]"})
		root.Content = append(append(root.Content, nodes("images")...), list)
		return line, nil
	}
	for line := range strings.Lines(string(p.raw)) {
		if strings.HasPrefix(line, "...") {
			return 0, p.refused(root, "the document is ended by a line of dots: add an entry of images by hand")
		}
	}
	eol, margin := p.eol(), strings.Repeat(" ", root.Column-1)
	step := margin + "  "
	for _, n := range root.Content {
		if n.Kind == yaml.SequenceNode && n.Style&yaml.FlowStyle == 0 && n.Column >= root.Column {
			step = strings.Repeat(" ", n.Column-1)
			break
		}
	}
	text := margin + "images:" + eol + step + "- " + p.pairs(eol+step+"  ", fields...)
	end := len(p.raw)
	if last := p.lineStart(end); last < end {
		text = eol + text
	} else {
		text += eol
	}
	p.splices = append(p.splices, splice{end, end, text})
	root.Content = append(append(root.Content, nodes("images")...), list)
	line := len(p.lines)
	if strings.HasPrefix(text, eol) {
		line++
	}
	return line, nil
}

// addEntry adds an entry in the style of the last one.
func (p *page) addEntry(list *yaml.Node, fields []string) (int, error) {
	if list.Style&yaml.FlowStyle != 0 {
		at, line, err := p.insideEnd(list)
		if err != nil {
			return 0, err
		}
		text := "{" + p.pairs(", ", fields...) + "}"
		if len(list.Content) > 0 {
			text = ", " + text
		}
		p.splices = append(p.splices, splice{at, at, text})
		return line, nil
	}
	last := list.Content[len(list.Content)-1]
	from, err := p.offset(last)
	if err != nil {
		return 0, err
	}
	start := p.lineStart(from)
	lead := string(p.raw[start:from])
	if strings.Trim(lead, " ") != "-" {
		return 0, p.refused(last, "the last entry of images does not begin on the line of its dash: add an entry by hand")
	}
	text := lead + p.pairs(p.eol()+strings.Repeat(" ", len(lead)), fields...)
	if last.Style&yaml.FlowStyle != 0 || last.Kind != yaml.MappingNode {
		text = lead + "{" + p.pairs(", ", fields...) + "}"
	}
	line := last.Line
	each(last, func(n *yaml.Node) { line = max(line, n.Line) })
	if last.Style&yaml.FlowStyle != 0 {
		if _, line, err = p.insideEnd(last); err != nil {
			return 0, err
		}
	}
	end := p.lineEnd(p.lines[line-1])
	p.splices = append(p.splices, splice{end, end, p.eol() + text})
	return line + 1, nil
}

// insideEnd is where the text within a list or mapping in flow style ends, and the line
// that it is closed in.
func (p *page) insideEnd(n *yaml.Node) (at, line int, err error) {
	if at, err = p.content(n); err != nil {
		return 0, 0, err
	}
	depth, last := 0, at
	for at < len(p.raw) {
		switch c := p.raw[at]; {
		case (c == '"' || c == '\'') && strings.ContainsRune(" \t\r\n,[{:", rune(p.raw[at-1])):
			for at++; at < len(p.raw) && p.raw[at] != c; {
				_, size := unescape(p.raw[at:], c)
				at += max(size, 1)
			}
			last = at + 1
		case c == '#' && strings.ContainsRune(" \t\r\n", rune(p.raw[at-1])):
			at = p.lineEnd(at) - 1
		case c == '[' || c == '{':
			depth++
			last = at + 1
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return last, 1 + strings.Count(string(p.raw[:at]), "\n"), nil
			}
			last = at + 1
		case c != ' ' && c != '\t' && c != '\r' && c != '\n' && c != ',':
			last = at + 1
		}
		at++
	}
	return 0, 0, p.refused(n, "its end is not found: add an entry of images by hand")
}
