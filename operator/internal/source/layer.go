package source

import (
	"path"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// layer is one kustomization.
type layer struct {
	folder, file string
	root         *yaml.Node
	// lists of patches by their field, made when they are first asked for.
	lists map[string]*patches
	// images are the names of the entries of images, made when they are first asked for.
	images []string
}

// layer reads the kustomization in a folder; nil when there is none.
func (s *Sources) layer(folder string) *layer {
	if known, ok := s.layers[folder]; ok {
		return known
	}
	var l *layer
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(folder, name)
		if _, ok := s.files[file]; !ok {
			continue
		}
		if docs := s.hold(file).parsed(); len(docs) == 1 {
			l = &layer{folder: folder, file: file, root: docs[0], lists: map[string]*patches{}}
		}
		break
	}
	s.layers[folder] = l
	return l
}

func (l *layer) prefix() string { return text(l.root, "namePrefix") }
func (l *layer) suffix() string { return text(l.root, "nameSuffix") }

// entries are the texts of list fields.
func (l *layer) entries(keys ...string) []string {
	var out []string
	for _, key := range keys {
		list := field(l.root, key)
		if list == nil {
			continue
		}
		for _, n := range list.Content {
			if n = deref(n); n.Kind == yaml.ScalarNode {
				out = append(out, n.Value)
			}
		}
	}
	return out
}

// called are the names of the entries of images, which is list.
func (l *layer) called(list *yaml.Node) []string {
	if l.images == nil {
		l.images = make([]string, 0, len(list.Content))
		for _, n := range list.Content {
			l.images = append(l.images, text(n, "name"))
		}
	}
	return l.images
}

// expand are components with their own components, in the order of their work.
func (s *Sources) expand(folder string, components []string, depth int) []*layer {
	var out []*layer
	for _, entry := range components {
		target := path.Join(folder, entry)
		if l := s.layer(target); l != nil && depth < limits.SourceDepth {
			out = append(append(out, s.expand(target, l.entries("components"), depth+1)...), l)
		}
	}
	return out
}

// Kustomizations are the files of the kustomizations that an object passes, in the order
// in which they change it; nil where that is not sure.
func (s *Sources) Kustomizations(o Object) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	way, sure := s.wayTo(o.Path)
	if !sure {
		return nil
	}
	var out []string
	for _, l := range way {
		out = append(out, l.file)
	}
	return out
}

// Retags says what an entry of images, which is a mapping, makes of an image, and whether
// it is about it.
func Retags(entry *yaml.Node, image string) (next string, ok bool) {
	next, key := retag(entry, image)
	return next, key != ""
}
