package source

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// layer is one kustomization.
type layer struct {
	folder, file string
	root         *yaml.Node
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
		if docs := s.parsed(file); len(docs) == 1 {
			l = &layer{folder: folder, file: file, root: docs[0]}
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

// waysTo are the ways from a file up to the folder that was built: the layers in the
// order in which Kustomize applies them. More than two are not told apart.
func (s *Sources) waysTo(file string) [][]*layer {
	if known, ok := s.ways[file]; ok {
		return known
	}
	budget := limits.SourceFiles
	found := s.climb(s.top, file, 0, &budget)
	s.ways[file] = found
	return found
}

func (s *Sources) climb(folder, file string, depth int, budget *int) [][]*layer {
	l := s.layer(folder)
	if *budget--; l == nil || depth > limits.SourceDepth || *budget < 0 {
		return nil
	}
	var out [][]*layer
	components := l.entries("components")
	for _, entry := range l.entries("resources", "bases") {
		target := path.Join(folder, entry)
		var below [][]*layer
		if target == file {
			below = [][]*layer{nil}
		} else {
			below = s.climb(target, file, depth+1, budget)
		}
		for _, way := range below {
			out = append(out, append(slices.Concat(way, s.expand(folder, components, depth)), l))
		}
	}
	for i, entry := range components {
		for _, way := range s.climb(path.Join(folder, entry), file, depth+1, budget) {
			out = append(out, append(slices.Concat(way, s.expand(folder, components[i+1:], depth)), l))
		}
	}
	return out[:min(len(out), 2)]
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

// patch is one entry of patches, with the text of the patch where it stands.
type patch struct {
	// spot of the text's documents; node is not set.
	spot
	documents []*yaml.Node
	// target selects objects; nil: the patch names its own.
	target *yaml.Node
}

// patches of one field, in their order.
func (s *Sources) patches(l *layer, key string) []patch {
	list := field(l.root, key)
	if list == nil {
		return nil
	}
	var out []patch
	for i, n := range list.Content {
		n = deref(n)
		at := fields([]step{{key: key, index: -1}, {index: i}})
		if n.Kind == yaml.ScalarNode { // patchesStrategicMerge
			if docs := s.parsed(path.Join(l.folder, n.Value)); docs != nil {
				out = append(out, patch{spot: spot{file: path.Join(l.folder, n.Value)}, documents: docs})
			} else {
				out = append(out, s.inline(l, at, n, nil))
			}
			continue
		}
		target := field(n, "target")
		if file := text(n, "path"); file != "" {
			file = path.Join(l.folder, file)
			out = append(out, patch{spot: spot{file: file}, documents: s.parsed(file), target: target})
			continue
		}
		if body := field(n, "patch"); body != nil {
			out = append(out, s.inline(l, at+".patch", body, target))
		}
	}
	return out
}

// inline is a patch that is written as text in the kustomization. In a block its lines
// are those of the file; in other styles only the whole can be pointed to.
func (s *Sources) inline(l *layer, at string, body, target *yaml.Node) patch {
	p := patch{spot: spot{file: l.file, field: at, within: body, text: body, whole: true}, documents: decode([]byte(body.Value)), target: target}
	if body.Style&yaml.LiteralStyle == 0 {
		return p
	}
	lines := strings.Split(string(s.files[l.file]), "\n")
	first := strings.SplitN(body.Value, "\n", 2)[0]
	if body.Line < len(lines) && first != "" && strings.TrimRight(strings.TrimLeft(lines[body.Line], " "), "\r") == strings.TrimLeft(first, " ") {
		indent := len(lines[body.Line]) - len(strings.TrimLeft(lines[body.Line], " ")) - (len(first) - len(strings.TrimLeft(first, " ")))
		p.line, p.column, p.whole = body.Line, indent, false
	}
	return p
}

// selects says whether a target matches an object that had these names; sure is false
// where labels or annotations decide.
func selects(target *yaml.Node, o Object, names, namespaces []string) (matches, sure bool) {
	version, _ := o.Content["apiVersion"].(string)
	kind, _ := o.Content["kind"].(string)
	gv, _ := schema.ParseGroupVersion(version)
	one := func(key string, values ...string) bool {
		pattern := text(target, key)
		if pattern == "" {
			return true
		}
		re, err := regexp.Compile("^(?:" + pattern + ")$")
		return err == nil && slices.ContainsFunc(values, re.MatchString)
	}
	matches = one("group", gv.Group) && one("version", gv.Version) && one("kind", kind) && one("name", names...) && one("namespace", namespaces...)
	return matches, text(target, "labelSelector") == "" && text(target, "annotationSelector") == ""
}

// Kustomizations are the files of the kustomizations that an object passes, in the order
// in which they change it; nil where that is not sure.
func (s *Sources) Kustomizations(o Object) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ways := s.waysTo(o.Path)
	if len(ways) != 1 {
		return nil
	}
	var out []string
	for _, l := range ways[0] {
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
