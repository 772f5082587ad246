package source

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// trace follows one field of one object through the layers, as Kustomize changes it.
type trace struct {
	sources *Sources
	object  Object
	steps   []step
	// value that the field has so far, and where it was set; set is false while it is not
	// there.
	value any
	last  spot
	set   bool
	// doubt says that something may have changed the field that is not followed.
	doubt bool
	// names and namespaces that the object had.
	names, namespaces []string
}

// base starts with the document that the object comes from.
func (t *trace) base(doc *yaml.Node) {
	t.names, t.namespaces = []string{text(doc, "metadata", "name")}, []string{text(doc, "metadata", "namespace"), namespace(t.object.Content)}
	t.from(doc, spot{file: t.object.Path, within: doc, document: doc}, t.steps)
}

// leaf is what the object was built with.
func (t *trace) leaf() any { return t.steps[len(t.steps)-1].built }

// holds says whether what was followed is what was built.
func (t *trace) holds() bool {
	if !t.set || t.doubt {
		return false
	}
	return !scalar(t.leaf()) || fmt.Sprint(t.value) == fmt.Sprint(t.leaf())
}

// from takes the field from a node that holds what is below rest. It says whether the
// node has it.
func (t *trace) from(n *yaml.Node, at spot, rest []step) bool {
	got, done := follow(n, rest)
	if done < len(rest) {
		return false
	}
	t.value, t.set = value(got.value), true
	inner := fields(got.field)
	if at.node = got.at; at.within == nil {
		at.within = n
	}
	switch {
	case at.field == "":
		at.field = inner
	case inner != "":
		at.field += ": " + inner
	}
	t.last = at
	return true
}

// apply is what one kustomization does, in Kustomize's order.
func (t *trace) apply(l *layer) {
	t.patches(l, "patchesStrategicMerge")
	t.patches(l, "patches")
	t.transform(l)
	t.patches(l, "patchesJson6902")
	t.replicas(l)
	t.images(l)
}

func (t *trace) patches(l *layer, key string) {
	for _, p := range t.sources.patches(l, key).about(t.names) {
		t.patch(p)
	}
}

func (t *trace) patch(p patch) {
	if p.target != nil {
		if !p.target.selects(t.object, t.names, t.namespaces) {
			return
		}
		before := *t
		t.merge(p.spot, p.body)
		if !p.target.sure && (t.last != before.last || t.set != before.set) {
			t.doubt = true
		}
		return
	}
	kind, _ := t.object.Content["kind"].(string)
	ns := text(p.body, "metadata", "namespace")
	if text(p.body, "kind") == kind && slices.Contains(t.names, text(p.body, "metadata", "name")) && (ns == "" || slices.Contains(t.namespaces, ns)) {
		t.merge(p.spot, p.body)
	}
}

func (t *trace) merge(at spot, doc *yaml.Node) {
	at.document = doc
	if doc.Kind == yaml.SequenceNode {
		for i, op := range doc.Content {
			t.operation(at, deref(op), i)
		}
		return
	}
	got, done := follow(doc, t.steps)
	n := deref(got.value)
	switch {
	case done == len(t.steps):
		if scalar(t.leaf()) || !t.set || t.atomic() {
			t.from(doc, at, t.steps)
		}
	case n.Kind == yaml.ScalarNode && done > 0, // a null, or a value in place of what held the field
		field(n, "$patch") != nil,
		n.Kind == yaml.SequenceNode && t.replacesLists():
		t.set = false
	}
}

// replacesLists says that Kustomize knows no keys for the lists of the object: a patch
// replaces them whole.
func (t *trace) replacesLists() bool {
	version, _ := t.object.Content["apiVersion"].(string)
	group, _, grouped := strings.Cut(version, "/")
	return grouped && strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// atomic says that the field is in a list which patches replace whole.
func (t *trace) atomic() bool {
	return t.replacesLists() && slices.ContainsFunc(t.steps, func(s step) bool { return s.index >= 0 })
}

// operation is one of a JSON 6902 patch.
func (t *trace) operation(at spot, op *yaml.Node, i int) {
	tokens := strings.Split(strings.TrimPrefix(text(op, "path"), "/"), "/")
	n := 0
	for ; n < len(tokens) && n < len(t.steps); n++ {
		if !t.steps[n].named(tokens[n]) {
			break
		}
	}
	kind := text(op, "op")
	if from := text(op, "from"); from != "" && (n == len(tokens) || kind == "move") {
		t.doubt = true // what was there is not followed
		return
	}
	if n < len(tokens) {
		// An entry that is added to a list may be ours, wherever it came to stand.
		last := n == len(tokens)-1 && n < len(t.steps) && t.steps[n].index >= 0 && kind == "add"
		if body := field(op, "value"); last && body != nil && t.steps[n].by != "" && same(field(body, t.steps[n].by), t.steps[n].is) {
			t.written(at, body, t.steps[n+1:], i)
		}
		return
	}
	switch kind {
	case "remove":
		t.set = false
	case "add", "replace":
		t.set = false
		if body := field(op, "value"); body != nil {
			t.written(at, body, t.steps[n:], i)
		}
	}
}

// written takes the field from the value of an operation.
func (t *trace) written(at spot, body *yaml.Node, rest []step, i int) {
	entry := fields([]step{{index: i}, {key: "value", index: -1}})
	if at.field != "" {
		entry = at.field + ": " + entry
	}
	at.field = entry
	t.from(body, at, rest)
}

// named says whether a token of a JSON pointer means the step.
func (s step) named(token string) bool {
	if s.index >= 0 {
		return token == strconv.Itoa(s.index)
	}
	return s.key == strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}

// transform follows namespace, prefix, suffix, labels and annotations.
func (t *trace) transform(l *layer) {
	where := fields(t.steps)
	if ns := field(l.root, "namespace"); ns != nil {
		t.namespaces = append(t.namespaces, ns.Value)
		if where == "metadata.namespace" {
			t.key(l, l.root, "namespace", "", ns.Value)
		}
	}
	if l.prefix()+l.suffix() != "" {
		t.names = append(t.names, l.prefix()+t.names[len(t.names)-1]+l.suffix())
		if where == "metadata.name" && t.set {
			t.value = t.names[len(t.names)-1]
		}
	}
	if len(t.steps) < 2 {
		return
	}
	holder, key := t.steps[len(t.steps)-2].key, t.steps[len(t.steps)-1].key
	if holder == "annotations" {
		t.pair(l, field(l.root, "commonAnnotations"), "commonAnnotations", key)
	}
	if holder != "labels" && holder != "matchLabels" && holder != "selector" {
		return
	}
	t.pair(l, field(l.root, "commonLabels"), "commonLabels", key)
	if list := field(l.root, "labels"); list != nil {
		for i, n := range list.Content {
			// Which places get it depends on includeSelectors, includeTemplates and fields.
			if pairs := field(n, "pairs"); strings.HasPrefix(where, "metadata.labels") || t.differs(pairs, key) {
				t.pair(l, pairs, fmt.Sprintf("labels[%d].pairs", i), key)
			}
		}
	}
}

// differs says that pairs have what was built and the field, so far, has not.
func (t *trace) differs(pairs *yaml.Node, key string) bool {
	v := field(pairs, key)
	return v != nil && same(v, t.leaf()) && (!t.set || fmt.Sprint(t.value) != fmt.Sprint(t.leaf()))
}

func (t *trace) pair(l *layer, pairs *yaml.Node, at, key string) {
	if v := field(pairs, key); v != nil {
		t.key(l, pairs, key, at, v.Value)
	}
}

// key takes a value from a key of the kustomization.
func (t *trace) key(l *layer, holder *yaml.Node, key, at string, v any) {
	node, _ := member(deref(holder), key)
	if at != "" {
		at += "."
	}
	t.value, t.set = v, true
	t.last = spot{file: l.file, field: at + key, node: node, within: node, document: l.root}
}

func (t *trace) replicas(l *layer) {
	list := field(l.root, "replicas")
	if list == nil || fields(t.steps) != "spec.replicas" {
		return
	}
	for i, n := range list.Content {
		count := field(n, "count")
		if count == nil || !slices.Contains(t.names, text(n, "name")) {
			continue
		}
		// Of kinds that are not built in, only those that a configuration names are changed.
		if t.replacesLists() && !same(count, t.leaf()) {
			continue
		}
		t.key(l, n, "count", fmt.Sprintf("replicas[%d]", i), value(count))
		t.last.within = n
	}
}

// images follows the entries of images. They reach the fields of pods; others only where
// a configuration says so, which what was built tells.
func (t *trace) images(l *layer) {
	list := field(l.root, "images")
	current, isText := t.value.(string)
	if list == nil || !t.set || !isText || !t.image() {
		return
	}
	called := l.called(list)
	for i, n := range list.Content {
		if !possible(called[i], current) {
			continue
		}
		next, key := retag(deref(n), current)
		if key == "" || t.replacesLists() && current == fmt.Sprint(t.leaf()) {
			continue
		}
		t.key(l, deref(n), key, fmt.Sprintf("images[%d]", i), next)
		t.last.within = n
		current = next
	}
}

// image says whether the field may name an image.
func (t *trace) image() bool {
	key := t.steps[len(t.steps)-1].key
	return strings.HasSuffix(strings.ToLower(key), "image") || key == "reference"
}

// possible says whether an entry of images with that name may be about an image, without
// compiling the pattern that a name is to Kustomize: most names have dots, and else plain text.
func possible(called, image string) bool {
	if strings.ContainsAny(called, `\+*?()|[]{}^$`) {
		return true
	}
	if called == "" || len(image) < len(called) {
		return false
	}
	for i := range len(called) {
		if image[i] >= utf8.RuneSelf || called[i] >= utf8.RuneSelf {
			return true // no image has such a letter, and a dot is for all of its bytes
		}
		if called[i] != '.' && called[i] != image[i] {
			return false
		}
	}
	return len(image) == len(called) || strings.ContainsRune(":@", rune(image[len(called)]))
}

// retag is what an entry of images makes of an image, and the key that decided; "" when
// it is not its image. To Kustomize the name is a pattern.
func retag(entry *yaml.Node, image string) (next, key string) {
	called := text(entry, "name")
	if called == "" || !possible(called, image) {
		return image, ""
	}
	pattern, err := regexp.Compile("^" + called + "(:[a-zA-Z0-9_.{}-]*)?(@[a-zA-Z0-9]+([.+_-][a-zA-Z0-9]+)*:[a-zA-Z0-9_.{}-]*)?$")
	if err != nil || !pattern.MatchString(image) {
		return image, ""
	}
	name, digest, _ := strings.Cut(image, "@")
	tag := ""
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name, tag = name[:i], name[i+1:]
	}
	newName, newTag, newDigest, suffix := text(entry, "newName"), text(entry, "newTag"), text(entry, "digest"), text(entry, "tagSuffix")
	if newName != "" {
		name, key = newName, "newName"
	}
	switch {
	case newTag != "" && newDigest != "":
		tag, digest, key = newTag, newDigest, "digest"
	case newTag != "":
		tag, digest, key = newTag, "", "newTag"
	case newDigest != "":
		tag, digest, key = "", newDigest, "digest"
	case suffix != "":
		tag, digest, key = tag+suffix, "", "tagSuffix"
	}
	if tag != "" {
		name += ":" + tag
	}
	if digest != "" {
		name += "@" + digest
	}
	return name, key
}
