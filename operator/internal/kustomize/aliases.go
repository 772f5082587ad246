package kustomize

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// ErrExpands says that the aliases of a document are a bomb.
var ErrExpands = fmt.Errorf("its aliases expand to more than %d bytes (limits.ExpandedBytes)", limits.ExpandedBytes)

// CheckAliases works out what YAML would be with its aliases written out, before anyone
// writes them out. It returns ErrExpands, or the parser's error; text without aliases is
// not parsed.
func CheckAliases(raw []byte) error {
	if bytes.IndexByte(raw, '&') < 0 || bytes.IndexByte(raw, '*') < 0 {
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := CheckNode(&document); err != nil {
			return err
		}
	}
}

// CheckNode is CheckAliases for a document that is parsed already.
func CheckNode(document *yaml.Node) error {
	if (expansion{}).size(document) > limits.ExpandedBytes {
		return ErrExpands
	}
	return nil
}

// expansion holds the size of every node that was seen, so that the work is linear in
// what was written.
type expansion map[*yaml.Node]int

// size stops growing once it is over the bound.
func (e expansion) size(node *yaml.Node) int {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if known, ok := e[node]; ok {
		return known
	}
	// A node that holds itself is endless.
	e[node] = limits.ExpandedBytes + 1
	sum := len(node.Value) + 1
	for _, child := range node.Content {
		sum = min(sum+e.size(child), limits.ExpandedBytes+1)
	}
	e[node] = sum
	return sum
}
