package kustomize

import (
	"bytes"
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Read reads the objects of a resource file as a build does. It is no build: nothing of
// the process is read or changed, so that it may be called side by side.
func Read(raw []byte) (objects []*resource.Resource, err error) {
	defer func() {
		if p := recover(); p != nil {
			objects, err = nil, fmt.Errorf("kustomize: it gave up on this file: %v", p)
		}
	}()
	factory := provider.NewDefaultDepProvider().GetResourceFactory()
	if nodes, ok := unanchored(raw); ok {
		// A file is read, and not built: only a build leaves out what is marked as local.
		factory.IncludeLocalConfigs = true
		if objects, err = factory.ResourcesFromRNodes(nodes); err == nil {
			return objects, nil
		}
	}
	return factory.SliceFromBytes(raw)
}

// unanchored reads the documents of a file without an anchor, an alias or a merge key.
// Kustomize copies each mapping three times, and what is in it each time again, to resolve
// those, which is half of what reading costs. It says false where they might be there, and
// where Kustomize does anything else about a document.
func unanchored(raw []byte) ([]*yaml.RNode, bool) {
	if bytes.ContainsAny(raw, "&*") || bytes.Contains(raw, []byte("<<")) {
		return nil, false
	}
	nodes, err := (&kio.ByteReader{Reader: bytes.NewReader(raw), OmitReaderAnnotations: true}).Read()
	if err != nil {
		return nil, false
	}
	for _, n := range nodes {
		if n.YNode().Kind != yaml.MappingNode {
			return nil, false
		}
		if empty, _ := n.HasNilEntryInList(); empty || strings.HasSuffix(n.GetKind(), "List") || oddKeys(n.YNode()) {
			return nil, false
		}
	}
	return nodes, true
}

// oddKeys says whether a key stands in a mapping twice, or is one that Kustomize may take for
// several: it resolves !!merge and "\x3c<" as it does <<, and writes null twice.
func oddKeys(n *yaml.Node) bool {
	if n.Kind == yaml.MappingNode {
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.ShortTag() != yaml.NodeTagString || key.Value == "<<" || seen[key.Value] {
				return true
			}
			seen[key.Value] = true
		}
	}
	for _, child := range n.Content {
		if oddKeys(child) {
			return true
		}
	}
	return false
}
