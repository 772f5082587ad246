package pin

import (
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// entry pins by an entry of images.
func (p *page) entry(n *yaml.Node, tag, digest string) error {
	if n.Kind != yaml.MappingNode {
		return p.refused(n, "an entry of images that comes from an anchor is not changed: write it out here")
	}
	if user := p.users[n]; user != nil {
		return p.refused(n, fmt.Sprintf("the entry is used in line %d too (&%s): write it out there", user.Line, n.Anchor))
	}
	tagKey, tagValue := member(n, "newTag")
	digestKey, digestValue := member(n, "digest")
	switch {
	case digestKey == nil && tagKey != nil && tag == "":
		return p.rename(tagKey, tagValue, "digest", digest)
	case digestKey == nil && tagKey != nil:
		if err := p.set(tagValue, tag); err != nil {
			return err
		}
		return p.insertAfter(n, tagKey, "digest", digest)
	case digestKey == nil && tag == "":
		return p.insertAfter(n, lastScalar(n), "digest", digest)
	case digestKey == nil:
		return p.insertAfter(n, lastScalar(n), "newTag", tag, "digest", digest)
	}
	changed := text(digestValue) != digest
	if changed {
		if err := p.set(digestValue, digest); err != nil {
			return err
		}
	}
	switch {
	case tag != "" && tagKey == nil:
		return p.insertBefore(n, digestKey, "newTag", tag)
	case tag != "" && text(tagValue) != tag:
		return p.set(tagValue, tag)
	case tag == "" && tagKey != nil && changed:
		return p.remove(n, tagKey, tagValue)
	}
	return nil
}

// text is that of a scalar or of what an alias means.
func text(n *yaml.Node) string {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil {
		return ""
	}
	return n.Value
}

// lastScalar is the key of the last field that has a text.
func lastScalar(n *yaml.Node) *yaml.Node {
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if n.Content[i+1].Kind == yaml.ScalarNode && n.Content[i+1].Value != "" {
			return n.Content[i]
		}
	}
	return n.Content[0]
}

// rename makes another field of one, with another text.
func (p *page) rename(key, value *yaml.Node, name, text string) error {
	if key.Anchor != "" || value.Kind == yaml.ScalarNode && value.Anchor != "" {
		return p.refused(value, fmt.Sprintf("the anchor &%s is on %s, which gives way to %s: take the anchor away", value.Anchor, key.Value, name))
	}
	if err := p.set(key, name); err != nil {
		return err
	}
	return p.set(value, text)
}

// pairs are fields as they are written, with between them. A page of JSON stays one: what
// reads YAML knows by itself that there are quotes or none.
func (p *page) pairs(between string, fields ...string) string {
	var out []string
	for i := 0; i+1 < len(fields); i += 2 {
		key, value := fields[i], scalar(fields[i+1])
		if p.json {
			key, value = strconv.Quote(key), strconv.Quote(fields[i+1])
		}
		out = append(out, key+": "+value)
	}
	return strings.Join(out, between)
}

// nodes are fields as they are read.
func nodes(fields ...string) []*yaml.Node {
	var out []*yaml.Node
	for _, f := range fields {
		out = append(out, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: f})
	}
	return out
}

// between is what stands between two fields of a mapping.
func (p *page) between(n *yaml.Node) string {
	if n.Style&yaml.FlowStyle != 0 {
		return ", "
	}
	return p.eol() + strings.Repeat(" ", n.Content[0].Column-1)
}

// insertBefore adds a field before another one.
func (p *page) insertBefore(n, key *yaml.Node, fields ...string) error {
	at, err := p.offset(key)
	if err != nil {
		return err
	}
	between := p.between(n)
	p.splices = append(p.splices, splice{at, at, p.pairs(between, fields...) + between})
	p.insert(n, index(n, key), fields)
	return nil
}

// insertAfter adds fields after another one, which has a text.
func (p *page) insertAfter(n, key *yaml.Node, fields ...string) error {
	i := index(n, key)
	value := n.Content[i+1]
	if value.Kind != yaml.ScalarNode || value.Value == "" {
		return p.insertBefore(n, key, fields...)
	}
	e, err := p.extent(value)
	if err != nil {
		return err
	}
	between, at := p.between(n), e.end
	if n.Style&yaml.FlowStyle == 0 {
		at = p.lineEnd(at) // a comment stays with what it is about
	}
	p.splices = append(p.splices, splice{at, at, between + p.pairs(between, fields...)})
	p.insert(n, i+2, fields)
	return nil
}

func (p *page) insert(n *yaml.Node, i int, fields []string) {
	n.Content = append(n.Content[:i:i], append(nodes(fields...), n.Content[i:]...)...)
}

func index(n, key *yaml.Node) int {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i] == key {
			return i
		}
	}
	return 0
}

// remove takes a field away. A comment on its line stays.
func (p *page) remove(n, key, value *yaml.Node) error {
	if user := p.users[value]; user != nil {
		return p.refused(value, fmt.Sprintf("%s gives way, and is used in line %d (&%s): write it out there", key.Value, user.Line, value.Anchor))
	}
	from, err := p.offset(key)
	if err != nil {
		return err
	}
	to, err := p.end(value)
	if err != nil {
		return err
	}
	i := index(n, key)
	if n.Style&yaml.FlowStyle != 0 {
		if i+2 < len(n.Content) {
			to, err = p.offset(n.Content[i+2])
		} else if i > 0 {
			from, err = p.end(n.Content[i-1])
		}
	} else {
		from, to = p.line(from, to)
	}
	if err != nil {
		return err
	}
	p.splices = append(p.splices, splice{from, to, ""})
	n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
	return nil
}

// end is where a scalar or an alias ends.
func (p *page) end(n *yaml.Node) (int, error) {
	if n.Kind == yaml.AliasNode {
		at, err := p.offset(n)
		return at + len("*") + len(n.Value), err
	}
	if n.Kind != yaml.ScalarNode {
		return 0, p.refused(n, "there has to be a text")
	}
	e, err := p.extent(n)
	return e.end, err
}

// line widens what is taken from a block to its whole line, where nothing else is on it.
func (p *page) line(from, to int) (int, int) {
	start, end := p.lineStart(from), p.lineEnd(to)
	if comment := strings.IndexByte(string(p.raw[to:end]), '#'); comment >= 0 {
		return from, to + comment
	}
	next := end + lineBreak(p.raw[end:])
	if strings.TrimLeft(string(p.raw[start:from]), " ") == "" {
		if next == end && start > 0 { // the last line, without a break: that of the one before goes
			return p.lineEnd(p.lineStart(start - 1)), end
		}
		return start, next
	}
	// The first field of an entry: the next one takes its place after the dash.
	for next < len(p.raw) && (p.raw[next] == ' ' || lineBreak(p.raw[next:]) > 0) {
		next++
	}
	return from, next
}
