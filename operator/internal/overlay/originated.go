package overlay

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
)

// fileAnnotation says, during a build, from which file an object was read, as a path below the
// root. Kustomize has origin annotations for that, and with them notes on each object every
// transformer that there is: with a patch for each of 300 Workloads that takes minutes, where
// the build takes a second. Nobody can know its name beforehand: a patch for objects without
// it would be passed over here, and applied by everybody else.
var fileAnnotation = "sluice.dev/read-from-" + rand.Text()

// hashedName ends in what Kustomize makes of a whole object, its annotations included, where an
// annotation asks for that.
var hashedName = regexp.MustCompile(`-[2456789bcdfghkmt]{10}$`)

// originated shows Kustomize resource files with fileAnnotation on each object, so that it can
// be traced to its file. Which files those are, it learns from the kustomizations, which
// Kustomize reads before them.
type originated struct {
	*rooted
	resources map[string]bool
	// generators are those of all kustomizations, in the order in which they are read.
	generators []generator
	// loaded are the files that are read for what is in them, and settings those of them that
	// say where labels and the like go.
	loaded, settings map[string]bool
	// reached says that there are plugins, which may read any file and look at any object, or
	// that something goes into annotations only where there are some.
	reached bool
	// unmarked has files shown as they are.
	unmarked bool
	// leaked says that fileAnnotation is in what was built elsewhere than where it was put, or
	// in a hash, or is gone.
	leaked atomic.Bool
}

// generator of ConfigMaps or Secrets, and the kustomization that it stands in.
type generator struct{ kind, name, file string }

func newOriginated(fsys *rooted) *originated {
	return &originated{rooted: fsys, resources: map[string]bool{}, loaded: map[string]bool{}, settings: map[string]bool{}}
}

// built are the objects of a folder, with their files. fsys shows what o does. Where the
// annotations may have changed more than themselves, or Kustomize refuses what it built with
// them, it is built again without: what is told is always what anybody else gets.
func (o *originated) built(fsys filesys.FileSystem, below string) ([]Object, error) {
	before := o.files
	marked, err := o.once(fsys, below)
	if o.over != nil || err == nil && !o.doubtful() {
		return marked, err
	}
	o.files, o.unmarked = before, true
	objects, err := o.once(fsys, below)
	if len(objects) == len(marked) {
		for i := range objects {
			objects[i].File, objects[i].Path = marked[i].File, marked[i].Path
		}
	}
	return objects, err
}

func (o *originated) once(fsys filesys.FileSystem, below string) ([]Object, error) {
	resources, err := kustomize.Build(fsys, "/"+below)
	if o.over != nil {
		return nil, o.over
	}
	if err == nil {
		var objects []Object
		if objects, err = fromResources(o, resources, below); err == nil {
			return objects, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", o.shown(below), err)
}

// doubtful says whether the annotations may have changed more of what was built than
// themselves.
func (o *originated) doubtful() bool {
	for file := range o.loaded {
		if o.resources[file] {
			return true
		}
	}
	return o.reached || o.leaked.Load()
}

func (o *originated) ReadFile(name string) ([]byte, error) {
	raw, err := o.rooted.ReadFile(name)
	file := inside(name)
	switch {
	case err != nil:
	case slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(file)):
		o.learn(file, raw)
	case o.resources[file] && !o.unmarked:
		var exact bool
		raw, exact = marked(raw, file)
		o.reached = o.reached || !exact
	}
	if o.settings[file] {
		o.reached = o.reached || isAboutAnnotations(raw)
	}
	return raw, err
}

// learn what a kustomization lists and generates. One that cannot be read is Kustomize's to
// refuse.
func (o *originated) learn(file string, raw []byte) {
	var k types.Kustomization
	if k.Unmarshal(raw) != nil {
		return
	}
	//lint:ignore SA1019 what is deprecated is still read
	for _, entry := range append(k.Resources, k.Bases...) {
		o.resources[path.Join(path.Dir(file), entry)] = true
	}
	for _, f := range loaded(k) {
		o.loaded[path.Join(path.Dir(file), f.path)] = true
	}
	for _, entry := range append(k.Configurations, k.Crds...) {
		o.settings[path.Join(path.Dir(file), entry)] = true
	}
	labelled := func(l types.Label) bool {
		return slices.ContainsFunc(l.FieldSpecs, func(f types.FieldSpec) bool { return strings.Contains(f.Path, "annotations") })
	}
	valued := func(v types.Var) bool { return strings.Contains(v.FieldRef.FieldPath, "annotations") }
	//lint:ignore SA1019 what is deprecated is still read
	o.reached = o.reached || slices.ContainsFunc(k.Vars, valued)
	o.reached = o.reached || len(k.Generators)+len(k.Transformers)+len(k.Validators) > 0 || slices.ContainsFunc(k.Labels, labelled)
	for _, g := range k.ConfigMapGenerator {
		o.generators = append(o.generators, generator{"ConfigMap", g.Name, file})
	}
	for _, g := range k.SecretGenerator {
		o.generators = append(o.generators, generator{"Secret", g.Name, file})
	}
}

// fileOf a built object is its resource file, or the kustomization with its generator, whose
// name is within that of the object, with what Kustomize puts around it. It is empty where
// neither is known: a patch may take annotations away.
func (o *originated) fileOf(annotation, kind, name string) string {
	if o.resources[annotation] {
		return annotation
	}
	var best generator
	for _, g := range o.generators {
		if g.kind == kind && strings.Contains(name, g.name) && len(g.name) > len(best.name) {
			best = g
		}
	}
	return best.file
}

// isAboutAnnotations says whether settings may be about the field of annotations.
func isAboutAnnotations(settings []byte) bool {
	documents, err := mappings(settings)
	return err != nil || slices.ContainsFunc(documents, namesAnnotations)
}

func namesAnnotations(n *yaml.Node) bool {
	return strings.Contains(n.Value, "annotations") || slices.ContainsFunc(n.Content, namesAnnotations)
}

// content of a built object without fileAnnotation, and the file that it named.
func (o *originated) content(r *resource.Resource) (*unstructured.Unstructured, string, error) {
	raw, err := r.MarshalJSON()
	if err != nil {
		return nil, "", err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, "", err
	}
	file := unmark(u)
	put := 1
	if file == "" {
		put = 0
	}
	ofData := u.GetKind() == "ConfigMap" || u.GetKind() == "Secret"
	switch {
	case file == "" && o.fileOf("", u.GetKind(), u.GetName()) == "",
		bytes.Count(raw, []byte(fileAnnotation)) != put,
		!ofData && hashedName.MatchString(u.GetName()):
		o.leaked.Store(true)
	}
	return u, file, nil
}

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
