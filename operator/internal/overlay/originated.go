package overlay

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
)

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
	resources, err := kustomize.Build(fsys, "/"+below, func(line string) { o.heard(below, line) })
	if o.over != nil {
		return nil, o.over
	}
	if err == nil {
		var objects []Object
		if objects, err = fromResources(o, resources, below); err == nil {
			return objects, nil
		}
	}
	if where := o.keyWithoutQuotes(err); where != "" {
		return nil, errors.New(where)
	}
	if broken := o.brokenResource(err); broken != nil {
		return nil, broken
	}
	return nil, fmt.Errorf("%s: %w", o.shown(below), err)
}

// brokenResource is the error of the resource that is no YAML, if that is why nothing was
// built: Kustomize names the file as its kustomization does, and often another line.
func (o *originated) brokenResource(err error) error {
	if err == nil || !strings.Contains(err.Error(), "MalformedYAMLError") {
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(o.resources)) {
		for _, c := range split(o.rooted.content[file]) {
			if _, err := c.check(o.shown(file)); err != nil && !readable(c.text) {
				return err
			}
		}
	}
	return nil
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
	for _, warning := range *k.CheckDeprecatedFields() {
		o.warn(file, strings.TrimPrefix(warning, ofWarning))
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

// ofWarning is what Kustomize's warnings of deprecated fields start with. They do not say where
// the fields are.
const ofWarning = "# Warning: "

// heard takes what Kustomize said of a folder. Of deprecated fields, learn says more.
func (o *originated) heard(below, line string) {
	if !strings.HasPrefix(line, ofWarning) {
		o.warn(below, line)
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
	u, err := directly(r)
	if err != nil {
		return nil, "", err
	}
	found := mentions(u.Object, fileAnnotation)
	file := unmark(u)
	put := 1
	if file == "" {
		put = 0
	}
	ofData := u.GetKind() == "ConfigMap" || u.GetKind() == "Secret"
	switch {
	case file == "" && o.fileOf("", u.GetKind(), u.GetName()) == "",
		found != put,
		!ofData && hashedName.MatchString(u.GetName()):
		o.leaked.Store(true)
	}
	return u, file, nil
}

// mentions counts how often a text stands in keys and values.
func mentions(value any, text string) int {
	n := 0
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			n += strings.Count(key, text) + mentions(field, text)
		}
	case []any:
		for _, item := range value {
			n += mentions(item, text)
		}
	case string:
		n = strings.Count(value, text)
	}
	return n
}
