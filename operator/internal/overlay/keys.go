package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// keyWithoutQuotes says where a key is no text, if that is why nothing was built: Kustomize's
// own error names neither file nor key.
func (fsys *rooted) keyWithoutQuotes(err error) string {
	if unsupported := new(json.UnsupportedTypeError); !errors.As(err, &unsupported) {
		return ""
	}
	for _, file := range slices.Sorted(maps.Keys(fsys.content)) {
		documents, err := mappings(fsys.content[file])
		if err != nil {
			continue
		}
		for _, document := range documents {
			if key := notText(document); key != nil {
				return fmt.Sprintf("%s:%d: key %s is read as %s, and keys have to be text: write %q",
					fsys.shown(file), key.Line, key.Value, tagNames[key.ShortTag()], key.Value)
			}
		}
	}
	return ""
}

// tagNames are what YAML takes for something else than text.
var tagNames = map[string]string{
	yaml.NodeTagInt: "a number", yaml.NodeTagFloat: "a number", yaml.NodeTagBool: "true or false", "!!timestamp": "a time",
}

// notText is a key of a mapping that YAML takes for something else.
func notText(n *yaml.Node) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Kind == yaml.ScalarNode && tagNames[key.ShortTag()] != "" {
			return key
		}
	}
	for _, child := range n.Content {
		if key := notText(child); key != nil {
			return key
		}
	}
	return nil
}
