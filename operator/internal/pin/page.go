package pin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// page is a YAML text that is changed byte by byte. Its nodes are changed along, so that
// what was written can be held against what was meant.
type page struct {
	name      string
	raw       []byte
	lines     []int
	documents []*yaml.Node
	// users has, for a node with an anchor, an alias of it.
	users   map[*yaml.Node]*yaml.Node
	splices []splice
	// extents of scalars, as they were before their nodes were changed.
	extents map[*yaml.Node]extent
	// inner are the texts in the page that are YAML themselves.
	inner map[*yaml.Node]*page
	// json says that the text is JSON, which YAML is a superset of.
	json bool
}

// splice puts text in the place of the bytes between two offsets.
type splice struct {
	from, to int
	text     string
}

func newPage(name string, raw []byte) (*page, error) {
	p := &page{name: name, raw: raw, users: map[*yaml.Node]*yaml.Node{}, extents: map[*yaml.Node]extent{}, inner: map[*yaml.Node]*page{}, json: json.Valid(raw)}
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("%s: it is not written in UTF-8; convert it", name)
	}
	// The scanner passes over a byte order mark without counting it.
	p.lines = lineStarts(raw)
	if bytes.HasPrefix(raw, []byte("\ufeff")) {
		p.lines[0] = len("\ufeff")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		document := &yaml.Node{}
		err := decoder.Decode(document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		p.documents = append(p.documents, document)
		each(document, func(n *yaml.Node) {
			if n.Kind == yaml.AliasNode {
				p.users[n.Alias] = n
			}
		})
	}
	return p, nil
}

func each(n *yaml.Node, do func(*yaml.Node)) {
	do(n)
	for _, c := range n.Content {
		each(c, do)
	}
}

// refused says what stands in the way, and where.
func (p *page) refused(n *yaml.Node, why string) error {
	return fmt.Errorf("%s:%d: %s", p.name, n.Line, why)
}

// at finds the node that stands where another one of the same text does.
func (p *page) at(other *yaml.Node) (*yaml.Node, error) {
	var found *yaml.Node
	for _, document := range p.documents {
		each(document, func(n *yaml.Node) {
			if found == nil && n.Line == other.Line && n.Column == other.Column && n.Kind == other.Kind {
				found = n
			}
		})
	}
	if found == nil {
		return nil, p.refused(other, "its place in the text is not found")
	}
	return found, nil
}

// text is the page of a scalar that is YAML itself.
func (p *page) text(n *yaml.Node) (*page, error) {
	if known, ok := p.inner[n]; ok {
		return known, nil
	}
	if user := p.users[n]; user != nil {
		return nil, p.refused(n, fmt.Sprintf("the patch is used in line %d too (&%s): write it out there", user.Line, n.Anchor))
	}
	inner, err := newPage(fmt.Sprintf("%s:%d: patch", p.name, n.Line), []byte(n.Value))
	p.inner[n] = inner
	return inner, err
}

// follow goes from a node to the field of it. What is written in one place for several is
// not gone into.
func (p *page) follow(n *yaml.Node, field string) (*yaml.Node, error) {
	for _, step := range strings.FieldsFunc(field, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		if user := p.users[n]; user != nil {
			return nil, p.refused(n, fmt.Sprintf("what stands here is used in line %d too (&%s): write it out there", user.Line, n.Anchor))
		}
		var next *yaml.Node
		switch n.Kind {
		case yaml.MappingNode:
			_, next = member(n, step)
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(step); err == nil && i < len(n.Content) {
				next = n.Content[i]
			}
		}
		if next == nil {
			return nil, p.refused(n, fmt.Sprintf("%s comes from an anchor (alias or <<), which others may use: write it out here", field))
		}
		n = next
	}
	return n, nil
}

// member is the key and the value of a mapping's own field.
func member(n *yaml.Node, key string) (at, value *yaml.Node) {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// set writes a scalar's text anew. Of an alias the text is written in its place, and its
// anchor stays as it is.
func (p *page) set(n *yaml.Node, text string) error {
	if n.Kind == yaml.ScalarNode && n.Value == text {
		return nil
	}
	if n.Kind == yaml.AliasNode {
		at, err := p.offset(n)
		if err != nil {
			return err
		}
		end := at + len("*") + len(n.Value)
		p.splices = append(p.splices, splice{at, end, scalar(text)})
		p.extents[n] = extent{start: at, end: end}
		*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: n.Line, Column: n.Column}
		return nil
	}
	if n.Kind != yaml.ScalarNode {
		return p.refused(n, "there has to be a text")
	}
	if user := p.users[n]; user != nil {
		return p.refused(n, fmt.Sprintf("the value is used in line %d too (&%s): write it out there, or have that changed by hand", user.Line, n.Anchor))
	}
	e, err := p.extent(n)
	if err != nil {
		return err
	}
	old := strings.TrimRight(n.Value, "\n")
	block := n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	new := splice{e.at[0], e.at[len(old)], e.written(text)}
	if e.quote == 0 && !block {
		new.text = scalar(text)
	}
	p.splices = append(p.splices, new)
	n.Value, n.Tag = text+n.Value[len(old):], "!!str"
	return nil
}

// bytes are the text as it was changed.
func (p *page) bytes() ([]byte, error) {
	for n, inner := range p.inner {
		if err := p.adopt(n, inner); err != nil {
			return nil, err
		}
	}
	p.inner = map[*yaml.Node]*page{}
	slices.SortStableFunc(p.splices, func(a, b splice) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, s := range p.splices {
		if s.from < at {
			return nil, fmt.Errorf("%s: two changes of the same place", p.name)
		}
		out = append(append(out, p.raw[at:s.from]...), s.text...)
		at = s.to
	}
	out = append(out, p.raw[at:]...)
	return out, p.prove(out)
}

// adopt takes over what was changed in a text of the page.
func (p *page) adopt(n *yaml.Node, inner *page) error {
	changed, err := inner.bytes()
	if err != nil || len(inner.splices) == 0 {
		return err
	}
	e, err := p.extent(n)
	if err != nil {
		return err
	}
	for _, s := range inner.splices {
		if strings.Contains(s.text, "\n") {
			return p.refused(n, "a line would have to be added to a patch that is written as text; add it by hand")
		}
		p.splices = append(p.splices, splice{e.at[s.from], e.at[s.to], e.written(s.text)})
	}
	n.Value = string(changed)
	return nil
}

// prove reads what was written, and holds it against what was meant: the one place is
// changed, and every other node is what it was.
func (p *page) prove(out []byte) error {
	read, err := newPage(p.name, out)
	if err != nil {
		return fmt.Errorf("the change would break the file: %w; change it by hand", err)
	}
	if !slices.EqualFunc(p.documents, read.documents, same) {
		return fmt.Errorf("%s: the change would change more than the pin; change it by hand", p.name)
	}
	return nil
}

func same(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Value == b.Value && a.Anchor == b.Anchor && a.ShortTag() == b.ShortTag() && slices.EqualFunc(a.Content, b.Content, same)
}
