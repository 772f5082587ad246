package source

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// patch is one document of an entry of patches.
type patch struct {
	// spot of the text that the document is in; node is not set.
	spot
	body *yaml.Node
	// target selects objects; nil: the patch names its own.
	target *target
}

// patches of one field, in their order.
type patches struct {
	all []patch
	// named are the numbers of those that are about objects of one name only, and others
	// are the rest.
	named  map[string][]int
	others []int
}

// patches of a field of a kustomization. They are read once: there may be as many of them
// as there are objects to look them through for.
func (s *Sources) patches(l *layer, key string) *patches {
	if known, ok := l.lists[key]; ok {
		return known
	}
	out := &patches{named: map[string][]int{}}
	l.lists[key] = out
	list := field(l.root, key)
	if list == nil {
		return out
	}
	for i, n := range list.Content {
		at := fields([]step{{key: key, index: -1}, {index: i}})
		s.entry(l, at, deref(n), out)
	}
	return out
}

// entry reads one entry of patches.
func (s *Sources) entry(l *layer, at string, n *yaml.Node, out *patches) {
	if n.Kind == yaml.ScalarNode { // patchesStrategicMerge
		file := path.Join(l.folder, n.Value)
		if docs := s.patchFile(file); docs != nil {
			out.add(spot{file: file}, docs, nil)
		} else {
			out.add(s.inline(l, at, n), decode([]byte(n.Value)), nil)
		}
		return
	}
	target := targetOf(field(n, "target"))
	if file := text(n, "path"); file != "" {
		file = path.Join(l.folder, file)
		out.add(spot{file: file}, s.patchFile(file), target)
		return
	}
	if body := field(n, "patch"); body != nil {
		out.add(s.inline(l, at+".patch", body), decode([]byte(body.Value)), target)
	}
}

// patchFile is the documents of a file, which stays: what is made of it does too.
func (s *Sources) patchFile(name string) []*yaml.Node {
	if _, ok := s.files[name]; !ok {
		return nil
	}
	return s.hold(name).parsed()
}

func (p *patches) add(at spot, documents []*yaml.Node, target *target) {
	for _, doc := range documents {
		number := len(p.all)
		p.all = append(p.all, patch{spot: at, body: doc, target: target})
		name, one := text(doc, "metadata", "name"), true
		if target != nil {
			name, one = target.plain["name"]
		}
		if one {
			p.named[name] = append(p.named[name], number)
		} else {
			p.others = append(p.others, number)
		}
	}
}

// about are the patches that may be about an object that had these names.
func (p *patches) about(names []string) []patch {
	numbers := slices.Clone(p.others)
	for _, name := range names {
		numbers = append(numbers, p.named[name]...)
	}
	slices.Sort(numbers)
	var out []patch
	for _, n := range slices.Compact(numbers) {
		out = append(out, p.all[n])
	}
	return out
}

// inline is where a patch stands that is written as text in the kustomization. In a block
// its lines are those of the file; in other styles only the whole can be pointed to.
func (s *Sources) inline(l *layer, at string, body *yaml.Node) spot {
	out := spot{file: l.file, field: at, within: body, text: body, whole: true}
	if body.Style&yaml.LiteralStyle == 0 {
		return out
	}
	lines := s.file(l.file).lines()
	first := strings.SplitN(body.Value, "\n", 2)[0]
	if body.Line < len(lines) && first != "" && strings.TrimRight(strings.TrimLeft(lines[body.Line], " "), "\r") == strings.TrimLeft(first, " ") {
		indent := len(lines[body.Line]) - len(strings.TrimLeft(lines[body.Line], " ")) - (len(first) - len(strings.TrimLeft(first, " ")))
		out.line, out.column, out.whole = body.Line, indent, false
	}
	return out
}

// target is what a patch is for. To Kustomize its texts are patterns.
type target struct {
	// plain are those that only match themselves, and patterns the others; nil for one that
	// cannot be read, which matches nothing.
	plain    map[string]string
	patterns map[string]*regexp.Regexp
	// sure is false where labels or annotations decide.
	sure bool
}

func targetOf(n *yaml.Node) *target {
	if n == nil {
		return nil
	}
	out := &target{
		plain: map[string]string{}, patterns: map[string]*regexp.Regexp{},
		sure: text(n, "labelSelector") == "" && text(n, "annotationSelector") == "",
	}
	for _, key := range []string{"group", "version", "kind", "name", "namespace"} {
		switch pattern := text(n, key); {
		case pattern == "":
		case regexp.QuoteMeta(pattern) == pattern:
			out.plain[key] = pattern
		default:
			out.patterns[key], _ = regexp.Compile("^(?:" + pattern + ")$")
		}
	}
	return out
}

// selects says whether a target matches an object that had these names.
func (t *target) selects(o Object, names, namespaces []string) bool {
	version, _ := o.Content["apiVersion"].(string)
	kind, _ := o.Content["kind"].(string)
	gv, _ := schema.ParseGroupVersion(version)
	return t.one("group", gv.Group) && t.one("version", gv.Version) && t.one("kind", kind) && t.one("name", names...) && t.one("namespace", namespaces...)
}

func (t *target) one(key string, values ...string) bool {
	if plain, ok := t.plain[key]; ok {
		return slices.Contains(values, plain)
	}
	re, ok := t.patterns[key]
	return !ok || re != nil && slices.ContainsFunc(values, re.MatchString)
}
