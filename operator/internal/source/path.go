package source

import (
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// maxLists is how deep lists of objects may nest, as when they are read.
const maxLists = limits.SourceDepth

// step is one field of a path, or one entry of a list.
type step struct {
	key string
	// index of the entry, -1 for a field.
	index int
	// by and is tell the entry from others, wherever it stands in a list: its name, or for
	// an entry that is no map its value ("" for by).
	by string
	is any
	// built is what the object has there.
	built any
}

// identities are the fields that tell entries of lists apart, the best first.
var identities = []string{"name", "mountPath", "containerPort", "port", "topologyKey", "key", "ip", "devicePath"}

// split cuts a path at its dots and brackets; a text in brackets may be quoted.
func split(path string) []string {
	var out []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, b.String())
			b.Reset()
		}
	}
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '.':
			flush()
		case '[':
			flush()
			end := strings.IndexByte(path[i:], ']')
			if end < 0 {
				return out
			}
			inner := path[i+1 : i+end]
			if unquoted, err := strconv.Unquote(inner); err == nil {
				inner = unquoted
			}
			out = append(out, inner)
			i += end
		default:
			b.WriteByte(path[i])
		}
	}
	flush()
	return out
}

// resolve follows a path through an object as far as it goes, and says whether it goes to
// its end. A key with dots in it is found too.
func resolve(content map[string]any, path string) (steps []step, whole bool) {
	parts := split(path)
	var at any = content
	for len(parts) > 0 {
		switch v := at.(type) {
		case map[string]any:
			n := 1
			for ; n <= len(parts); n++ {
				if _, ok := v[strings.Join(parts[:n], ".")]; ok {
					break
				}
			}
			if n > len(parts) {
				return steps, false
			}
			key := strings.Join(parts[:n], ".")
			at, parts = v[key], parts[n:]
			steps = append(steps, step{key: key, index: -1, built: at})
		case []any:
			i, err := strconv.Atoi(parts[0])
			if err != nil || i < 0 || i >= len(v) {
				return steps, false
			}
			at, parts = v[i], parts[1:]
			steps = append(steps, entry(i, at))
		default:
			return steps, false
		}
	}
	return steps, true
}

func entry(i int, value any) step {
	s := step{index: i, built: value}
	m, isMap := value.(map[string]any)
	if !isMap {
		s.is = value
		return s
	}
	for _, key := range identities {
		if v, ok := m[key]; ok {
			s.by, s.is = key, v
			return s
		}
	}
	return s
}

// scalar says that the last step is a plain value.
func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// fields writes steps as a path.
func fields(steps []step) string {
	out := ""
	for _, s := range steps {
		switch {
		case s.index >= 0:
			out += fmt.Sprintf("[%d]", s.index)
		case strings.ContainsAny(s.key, ".[]"):
			out += fmt.Sprintf("[%q]", s.key)
		case out == "":
			out = s.key
		default:
			out += "." + s.key
		}
	}
	return out
}

// found is a node and how the document that it is in writes the way to it.
type found struct {
	// at is the node to point to: the key of a field, the entry of a list.
	at, value *yaml.Node
	field     []step
}

// follow goes from a node along steps, and returns how far it came.
func follow(n *yaml.Node, steps []step) (got found, done int) {
	got = found{at: n, value: n}
	for i, s := range steps {
		n = deref(got.value)
		if s.index < 0 {
			key, v := member(n, s.key)
			if v == nil {
				return got, i
			}
			got.at, got.value, got.field = key, v, append(got.field, s)
			continue
		}
		index := item(n, s)
		if index < 0 {
			return got, i
		}
		got.at, got.value = n.Content[index], n.Content[index]
		got.field = append(got.field, step{index: index})
	}
	return got, len(steps)
}

func deref(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// member finds a field of a mapping, also one that is merged into it by <<.
func member(n *yaml.Node, key string) (at, value *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "<<" && n.Content[i+1].Kind == yaml.AliasNode {
			return member(n.Content[i+1].Alias, key)
		}
	}
	return nil, nil
}

// item finds an entry of a list by what tells it from others, -1 for none or several.
func item(n *yaml.Node, s step) int {
	if n == nil || n.Kind != yaml.SequenceNode {
		return -1
	}
	if s.by == "" && s.is == nil {
		if s.index < len(n.Content) {
			return s.index
		}
		return -1
	}
	index := -1
	for i, c := range n.Content {
		c = deref(c)
		v := c
		if s.by != "" {
			_, v = member(c, s.by)
		}
		if v == nil || v.Kind != yaml.ScalarNode || !same(v, s.is) {
			continue
		}
		if index >= 0 {
			return -1
		}
		index = i
	}
	return index
}

// field is the value of a field of a mapping, nil if there is none.
func field(n *yaml.Node, key string) *yaml.Node {
	_, v := member(deref(n), key)
	return deref(v)
}

// text is the text at keys, "" if there is none.
func text(n *yaml.Node, keys ...string) string {
	for _, k := range keys {
		n = field(n, k)
	}
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}
