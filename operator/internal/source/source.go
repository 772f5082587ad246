// Package source finds where in a repository a field of a built object was written: in
// the base, in the patch, or by the transformer that set it last. It reads nothing: it is
// given the files that the build read. A place is only given for a field whose value
// there is the one that was built; otherwise it is the object's document, and says so.
package source

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/lru"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

// Sources are the files of one build. It is safe for concurrent use.
type Sources struct {
	files map[string][]byte
	top   string
	shown func(string) string

	mu sync.Mutex
	// lately are the files that were looked at last, held those that stay, and once all
	// that were looked at.
	lately *lru.Cache[string, *file]
	held   map[string]*file
	once   map[string]bool
	layers map[string]*layer
	// arrivals are how files are reached, found when they are first asked for.
	arrivals map[string]*arrival
	// names are the files by how they are shown, made when they are first asked for.
	names map[string][]string
}

// New makes Sources of files by their path below a root. top is the folder that was built
// by Kustomize, "" where files were only read; shown is a path as a user would type it.
func New(files map[string][]byte, top string, shown func(string) string) *Sources {
	return &Sources{
		files: files, top: top, shown: shown,
		lately: lru.New[string, *file](limits.SourceReadBytes, limits.SourceReadBytes), held: map[string]*file{}, once: map[string]bool{},
		layers: map[string]*layer{},
	}
}

// Object is an object as it was built.
type Object struct {
	Content map[string]any
	// Path of the file that it came from.
	Path string
}

// Find returns where the field at path (spec.containers[0].image) was set last. Of a
// field that is not set it is the closest one around it that is.
func (s *Sources) Find(o Object, path string) report.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, _ := s.find(o, path)
	return place
}

// Setting is what set a field last, for whoever changes it there.
type Setting struct {
	// File below the root.
	File string
	// Document that holds it: an object, a patch or a kustomization.
	Document *yaml.Node
	// Text is the scalar of the file that Document was read from, where a patch is written as
	// text; nil where Document is the file's own.
	Text *yaml.Node
	// Field of Document.
	Field string
	Place report.Place
}

// Setting returns what set the field at path, which is a plain value, last. Where that is
// not sure Document is nil, and the place says why.
func (s *Sources) Setting(o Object, path string) Setting {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, at := s.find(o, path)
	if at == nil || place.Note != "" {
		return Setting{Place: place}
	}
	fields := strings.Split(at.field, ": ")
	if at.text != nil {
		fields = fields[1:] // the first leads to the text
	}
	return Setting{File: at.file, Document: at.document, Text: at.text, Field: strings.Join(fields, "."), Place: place}
}

// find returns the place, and the spot where it is the field's own.
func (s *Sources) find(o Object, path string) (report.Place, *spot) {
	doc, way, why := s.origin(o)
	if doc == nil {
		return report.Place{File: s.shown(o.Path), Line: 1, Column: 1, Note: why}, nil
	}
	fallback := func(why string) (report.Place, *spot) {
		return s.place(spot{file: o.Path, node: doc, within: doc, document: doc}, why), nil
	}
	if why != "" {
		return fallback(why)
	}
	steps, whole := resolve(o.Content, path)
	if len(steps) == 0 {
		if path == "" {
			return fallback("")
		}
		return fallback("the object has no " + path)
	}
	t := trace{sources: s, object: o, steps: steps}
	t.base(doc)
	for _, l := range way {
		t.apply(l)
	}
	if !t.holds() {
		return fallback("the document that the object comes from: what set " + fields(steps) + " last is not sure")
	}
	if !whole {
		return s.place(t.last, "the closest place around "+path+", which is not set"), nil
	}
	return s.place(t.last, ""), &t.last
}

// place turns a spot into lines that a user can open.
func (s *Sources) place(at spot, note string) report.Place {
	out := report.Place{
		File: s.shown(at.file), Line: at.node.Line + at.line, Column: at.node.Column + at.column, Field: at.field, Note: note,
	}
	if at.whole {
		// A text in a style that tells no lines apart.
		out.Line, out.Column = at.within.Line, at.within.Column
	}
	out.First, out.Code = s.code(at, out.Line)
	return out
}

// spot is a node in a file.
type spot struct {
	file  string
	field string
	node  *yaml.Node
	// within is what the lines around it may be shown of.
	within *yaml.Node
	// document that node is in.
	document *yaml.Node
	// text of the file that document was read from, nil where it is the file's own.
	text *yaml.Node
	// line and column are added, where node was read from a text in the file.
	line, column int
	// whole says that within is the closest that can be pointed to.
	whole bool
}

// Contents are the documents of a file, and of the patches that are written as text in
// it, decoded: what a secret in it has to be looked for in.
func (s *Sources) Contents(file string) []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []any
	for _, name := range s.named(file) {
		for _, doc := range s.file(name).parsed() {
			out = append(out, value(doc))
			each(doc, func(n *yaml.Node) {
				if n.Kind == yaml.ScalarNode && strings.ContainsAny(n.Value, "{[:\n") {
					for _, inner := range decode([]byte(n.Value)) {
						out = append(out, value(inner))
					}
				}
			})
		}
	}
	return out
}

// named are the files that are shown by a name.
func (s *Sources) named(shown string) []string {
	if s.names == nil {
		s.names = make(map[string][]string, len(s.files))
		for name := range s.files {
			as := s.shown(name)
			s.names[as] = append(s.names[as], name)
		}
	}
	return s.names[shown]
}

func each(n *yaml.Node, do func(*yaml.Node)) {
	do(n)
	for _, c := range n.Content {
		each(c, do)
	}
}

// value decodes a node; nil when it cannot be.
func value(n *yaml.Node) any {
	var v any
	if n == nil || n.Decode(&v) != nil {
		return nil
	}
	return v
}

// origin finds the document that an object was built from, and the layers above it. why
// says what is missing, when the document is not the whole truth.
func (s *Sources) origin(o Object) (doc *yaml.Node, way []*layer, why string) {
	from, of := s.file(o.Path), kindOf(o.Content)
	candidates := from.objects(of)
	if len(candidates) == 0 {
		return nil, nil, "the file that the object comes from; it is generated, or its document was not found there"
	}
	inNamespace := func(c *yaml.Node) bool { return text(c, "metadata", "namespace") == namespace(o.Content) }
	if s.top == "" {
		named := only(from.called(of, name(o.Content)), inNamespace)
		if len(named) != 1 {
			return candidates[0], nil, "the first document of its kind; the file holds the object more than once"
		}
		return named[0], nil, ""
	}
	way, sure := s.wayTo(o.Path)
	if !sure {
		return candidates[0], nil, "the document of the base; more than one way, or none that is known, leads to it"
	}
	if len(candidates) > 1 {
		candidates = nil
		if called, ok := before(way, name(o.Content)); ok {
			candidates = from.called(of, called)
		}
	}
	if len(candidates) > 1 {
		candidates = only(candidates, inNamespace)
	}
	if len(candidates) != 1 {
		return nil, nil, "the file that the object comes from; which of its documents it is, is not sure"
	}
	return candidates[0], way, ""
}

// before is what an object was called before the layers gave it prefixes and suffixes; ok is
// false where they did not.
func before(way []*layer, name string) (called string, ok bool) {
	for _, l := range slices.Backward(way) {
		name, ok = strings.CutPrefix(name, l.prefix())
		if !ok {
			return "", false
		}
		if name, ok = strings.CutSuffix(name, l.suffix()); !ok {
			return "", false
		}
	}
	return name, true
}

func kindOf(content map[string]any) kind {
	version, _ := content["apiVersion"].(string)
	called, _ := content["kind"].(string)
	return kind{version, called}
}

func only(nodes []*yaml.Node, keep func(*yaml.Node) bool) []*yaml.Node {
	var out []*yaml.Node
	for _, n := range nodes {
		if keep(n) {
			out = append(out, n)
		}
	}
	return out
}

func metadata(content map[string]any, key string) string {
	m, _ := content["metadata"].(map[string]any)
	text, _ := m[key].(string)
	return text
}

func name(content map[string]any) string      { return metadata(content, "name") }
func namespace(content map[string]any) string { return metadata(content, "namespace") }

// same says whether a node has the value that was built. Numbers are compared as they
// are written, since JSON and YAML read them into different types.
func same(n *yaml.Node, built any) bool { return fmt.Sprint(value(n)) == fmt.Sprint(built) }
