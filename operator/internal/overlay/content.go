package overlay

import (
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// contentOf is an object as JSON has it: Kustomize writes it as YAML, reads that again, and writes
// JSON.
func contentOf(r *resource.Resource) (*unstructured.Unstructured, error) {
	raw, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(raw)
}

// directly is contentOf without writing the object out and reading it again, which takes four
// times as long. What would not come back as it is is left to contentOf.
func directly(r *resource.Resource) (*unstructured.Unstructured, error) {
	var content map[string]any
	if !lasting(r.YNode()) {
		return contentOf(r)
	}
	if err := r.YNode().Decode(&content); err != nil || !likeJSON(content) {
		return contentOf(r)
	}
	u := &unstructured.Unstructured{Object: content}
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		return contentOf(r)
	}
	return u, nil
}

// lasting says whether writing a node and reading it again gives the same. An empty null
// becomes an empty text, and a block of text may lose or win white space or become one that
// cannot be read; so may a text of several lines in no style, which is written as a block.
func lasting(node *yaml.Node) bool {
	if node.Kind == yaml.ScalarNode {
		switch {
		case node.Value == "" && node.ShortTag() == yaml.NodeTagNull, node.Style&yaml.FoldedStyle != 0:
			return false
		case node.Style&yaml.LiteralStyle != 0, node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 && strings.Contains(node.Value, "\n"):
			return lastingBlock(node.Value)
		}
	}
	for _, child := range node.Content { // that of an alias is where its anchor is
		if !lasting(child) {
			return false
		}
	}
	return true
}

func lastingBlock(text string) bool {
	odd := func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }
	return strings.TrimLeft(text, " \n") == text && strings.TrimRight(text, " \n") == strings.TrimSuffix(text, "\n") && !strings.ContainsFunc(text, odd)
}

// likeJSON makes integers those of a decoded JSON, and says whether all else is already.
func likeJSON(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if n, ok := field.(int); ok {
				value[key] = int64(n)
			} else if !utf8.ValidString(key) || !likeJSON(field) {
				return false
			}
		}
	case []any:
		for i, item := range value {
			if n, ok := item.(int); ok {
				value[i] = int64(n)
			} else if !likeJSON(item) {
				return false
			}
		}
	case string:
		return utf8.ValidString(value)
	case bool, nil:
	default: // a fraction may be a whole number in JSON, and a date a text
		return false
	}
	return true
}
