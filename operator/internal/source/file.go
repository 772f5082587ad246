package source

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// file is what is known of a text. All of it is made when it is first asked for.
type file struct {
	text      []byte
	documents []*yaml.Node
	decoded   bool
	split     []string
	// kinds are the objects in it by their kind, and named by their name too.
	kinds map[kind][]*yaml.Node
	named map[named][]*yaml.Node
}

type kind struct{ version, kind string }

type named struct {
	kind
	name string
}

// file is a file that was looked at lately, or is asked for again after it was let go: then
// it is kept, so that none is read more than twice.
func (s *Sources) file(name string) *file {
	if f, ok := s.held[name]; ok {
		return f
	}
	if f, ok := s.lately.Get(name); ok {
		return f
	}
	f := &file{text: s.files[name]}
	if s.once[name] {
		s.held[name] = f
		return f
	}
	s.once[name] = true
	s.lately.Put(name, f, min(len(f.text), limits.SourceReadBytes))
	return f
}

// hold keeps a file that counts for many objects.
func (s *Sources) hold(name string) *file {
	f := s.file(name)
	s.held[name] = f
	return f
}

// parsed are the documents of a file, as far as it can be read.
func (f *file) parsed() []*yaml.Node {
	if !f.decoded {
		f.documents, f.decoded = decode(f.text), true
	}
	return f.documents
}

func (f *file) lines() []string {
	if f.split == nil {
		f.split = strings.Split(string(f.text), "\n")
	}
	return f.split
}

// objects of a kind.
func (f *file) objects(of kind) []*yaml.Node {
	f.sort()
	return f.kinds[of]
}

// called are the objects of a kind that have a name.
func (f *file) called(of kind, name string) []*yaml.Node {
	f.sort()
	return f.named[named{of, name}]
}

func (f *file) sort() {
	if f.kinds != nil {
		return
	}
	f.kinds, f.named = map[kind][]*yaml.Node{}, map[named][]*yaml.Node{}
	for _, doc := range f.parsed() {
		f.enter(doc, 0)
	}
}

func (f *file) enter(n *yaml.Node, depth int) {
	if items := field(n, "items"); items != nil && strings.HasSuffix(text(n, "kind"), "List") && depth < maxLists {
		for _, item := range items.Content {
			f.enter(item, depth+1)
		}
		return
	}
	of := kind{text(n, "apiVersion"), text(n, "kind")}
	called := named{of, text(n, "metadata", "name")}
	f.kinds[of], f.named[called] = append(f.kinds[of], n), append(f.named[called], n)
}

// decode reads the documents of a text; one that is no YAML has none.
func decode(text []byte) []*yaml.Node {
	if kustomize.CheckAliases(text) != nil {
		return nil
	}
	var out []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		document := &yaml.Node{}
		err := decoder.Decode(document)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			return nil
		}
		if len(document.Content) == 1 {
			out = append(out, document.Content[0])
		}
	}
}
