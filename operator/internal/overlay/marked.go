package overlay

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
)

// fileAnnotation says, during a build, from which file an object was read, as a path below the
// root. Kustomize has origin annotations for that, and with them notes on each object every
// transformer that there is: with a patch for each of 300 Workloads that takes minutes, where
// the build takes a second. Nobody can know its name beforehand: a patch for objects without
// it would be passed over here, and applied by everybody else.
var fileAnnotation = "sluice.dev/read-from-" + rand.Text()

// marked is the text of a resource file with fileAnnotation on each object. What cannot be read
// is returned as it is, for Kustomize to say why. exact says that nothing else is different to a
// patch.
func marked(raw []byte, file string) (out []byte, exact bool) {
	if out, ok := inserted(raw, file); ok {
		return out, true
	}
	if out, exact, ok := rewritten(raw, file); ok {
		return out, exact
	}
	return raw, true
}

// rewritten is marked by reading objects and writing them out again. It says false where they
// are not the same then, but for the annotation. exact is false where they are the same only as
// they are: a null that is not written out becomes an empty text, and a patch drops nulls.
func rewritten(raw []byte, file string) (out []byte, exact, ok bool) {
	objects, err := kustomize.Read(raw)
	if err != nil {
		return nil, false, false
	}
	before, err := unmarked(objects)
	if err != nil {
		return nil, false, false
	}
	for _, o := range objects {
		if takesAnnotations(o.YNode()) {
			err = o.PipeE(yaml.SetAnnotation(fileAnnotation, file))
		}
		text, failed := yaml.String(o.YNode())
		if err != nil || failed != nil {
			return nil, false, false
		}
		out = append(append(out, "---\n"...), text...)
	}
	again, err := kustomize.Read(out)
	if err != nil {
		return nil, false, false
	}
	after, err := unmarked(again)
	exact = slices.EqualFunc(objects, again, func(a, b *resource.Resource) bool { return alike(a.YNode(), b.YNode()) })
	return out, exact, err == nil && reflect.DeepEqual(before, after)
}

// alike says whether two nodes are written the same.
func alike(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && a.Style == b.Style && slices.EqualFunc(a.Content, b.Content, alike)
}

// unmarked are the contents of objects without fileAnnotation.
func unmarked(objects []*resource.Resource) ([]map[string]any, error) {
	var out []map[string]any
	for _, o := range objects {
		u, err := contentOf(o)
		if err != nil {
			return nil, err
		}
		unmark(u)
		out = append(out, u.Object)
	}
	return out, nil
}

// takesAnnotations says whether an object has metadata, and room for annotations in it: what
// something else stands for is for others to refuse.
func takesAnnotations(object *yaml.Node) bool {
	metadata := entry(object, "metadata")
	annotations := entry(metadata, "annotations")
	return metadata != nil && metadata.Kind == yaml.MappingNode &&
		(annotations == nil || annotations.Kind == yaml.MappingNode || annotations.ShortTag() == yaml.NodeTagNull)
}

// unmark takes fileAnnotation from an object, and annotations where there are none then.
func unmark(u *unstructured.Unstructured) string {
	metadata, _ := u.Object["metadata"].(map[string]any)
	annotations, isMap := metadata["annotations"].(map[string]any)
	file, _ := annotations[fileAnnotation].(string)
	delete(annotations, fileAnnotation)
	if len(annotations) == 0 && (isMap || metadata["annotations"] == nil) {
		delete(metadata, "annotations")
	}
	return file
}

// inserted is marked for the usual file, whose text stays as it is but for what is put in. It
// says false where that is not all that there is to do: where anchors, lists of objects or
// empty mappings are, or the text is laid out in an unusual way.
func inserted(raw []byte, file string) ([]byte, bool) {
	// YAML has more ends of lines than one.
	if bytes.ContainsAny(raw, "&*\r") || bytes.Contains(raw, []byte("<<")) || bytes.ContainsFunc(raw, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return nil, false
	}
	lines := bytes.SplitAfter(raw, []byte("\n"))
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return bytes.Join(lines, nil), true
		}
		if err != nil || len(document.Content) != 1 || !insert(lines, document.Content[0], file) {
			return nil, false
		}
	}
}

// insert puts the annotation before the first annotation of an object, or before the first
// field of its metadata.
func insert(lines [][]byte, object *yaml.Node, file string) bool {
	text := fmt.Sprintf("%q: %q", fileAnnotation, file)
	within := entry(object, "metadata")
	if !isPlain(object) || !isPlain(within) || entry(object, "kind") == nil || strings.HasSuffix(entry(object, "kind").Value, "List") {
		return false
	}
	if annotations := entry(within, "annotations"); annotations == nil {
		text = "annotations: {" + text + "}"
	} else if within = annotations; !isPlain(within) || entry(within, fileAnnotation) != nil {
		return false
	}
	first := within.Content[0]
	line := lines[first.Line-1]
	before, rest := line[:first.Column-1], line[first.Column-1:]
	switch {
	case within.Style&yaml.FlowStyle != 0:
		lines[first.Line-1] = slices.Concat(before, []byte(text+", "), rest)
	case len(bytes.Trim(before, " ")) == 0:
		lines[first.Line-1] = slices.Concat(before, []byte(text+"\n"), line)
	default:
		return false
	}
	return true
}

// isPlain says whether a node is a mapping that is not empty, by texts of which none is there
// twice.
func isPlain(n *yaml.Node) bool {
	if n == nil || n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return false
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != yaml.NodeTagString || seen[key.Value] {
			return false
		}
		seen[key.Value] = true
	}
	return true
}

// entry of a mapping; nil for none.
func entry(n *yaml.Node, key string) *yaml.Node {
	if n != nil && n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
	}
	return nil
}
