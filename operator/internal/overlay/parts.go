package overlay

import (
	"cmp"
	"path"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
)

// partFiles is how many files are built at a time: each build takes some milliseconds whatever
// it builds, and beyond that as long as the square of what it builds. Tests take fewer.
var partFiles = 128

// takesEachByItself says whether what a kustomization does to an object has nothing to do with
// any other. What a patch without a target is for has to be there, so that there are parts in
// which it fails. Labels may be put into any field, that of the name included.
func (k kustomization) takesEachByItself() bool {
	if slices.ContainsFunc(k.Patches, func(p types.Patch) bool { return p.Target == nil || p.Options != nil }) {
		return false
	}
	elsewhere := func(f types.FieldSpec) bool { return !strings.HasPrefix(f.Path, "spec/") }
	if slices.ContainsFunc(k.Labels, func(l types.Label) bool { return slices.ContainsFunc(l.FieldSpecs, elsewhere) }) {
		return false
	}
	rest := k.Kustomization
	//lint:ignore SA1019 what is deprecated is still read
	rest.Labels, rest.CommonLabels, rest.CommonAnnotations, rest.Images, rest.Patches = nil, nil, nil, nil, nil
	rest.Namespace, rest.NamePrefix, rest.NameSuffix = "", "", ""
	return onlyResources(rest)
}

// inParts builds some of the files at a time, and puts all together. As they are written there
// are these objects in them, each of another name. Where they are not the same ones once they are
// built, but for their namespaces and what goes around their names, it is not known what the whole
// would have been.
func (l *listing) inParts(below string, written []name) ([]Object, error) {
	var patches [][]byte
	for _, k := range l.kustomizations {
		if raw, err := k.with(k.Resources); err != nil || !k.is(raw) {
			return nil, errNotPlain
		}
		texts, err := l.patches(k)
		if err != nil {
			return nil, err
		}
		patches = append(patches, texts...)
	}
	if l.outweighedBy(patches) || slices.ContainsFunc(patches, renames) {
		return nil, errNotPlain
	}
	var out []Object
	before := l.fsys.files
	for files := range slices.Chunk(l.files, partFiles) {
		l.fsys.files = before // each of them was counted
		o := newOriginated(l.fsys)
		built, err := o.built(&part{o, l.kustomizations, l.above(files)}, below)
		if err != nil {
			return nil, err
		}
		out = append(out, built...)
	}
	if !l.same(written, out) {
		return nil, errNotPlain
	}
	return distinct(l.fsys, [][]Object{out})
}

// patches are the texts of those of a kustomization. None may be one that is shown otherwise in
// each part.
func (l *listing) patches(k kustomization) ([][]byte, error) {
	var texts [][]byte
	for _, p := range k.Patches {
		text := []byte(strings.TrimSpace(p.Patch))
		if p.Path != "" {
			file := path.Join(k.folder, p.Path)
			if _, changed := l.kustomizations[file]; changed {
				return nil, errNotPlain
			}
			var err error
			if text, err = l.fsys.ReadFile(file); err != nil {
				return nil, err
			}
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// outweighedBy says whether patches are more than what they are for: they are read in each part.
func (l *listing) outweighedBy(patches [][]byte) bool {
	size := 0
	for _, text := range patches {
		size += len(text)
	}
	return size > l.size || len(patches) > len(l.files)
}

// renames says whether a patch may change what objects are told apart by. Two that are of one name
// in between are an error to Kustomize, and would not meet where they are in two parts. After a
// patch that merges, it puts that back, if the patch has no annotation that says otherwise.
func renames(text []byte) bool {
	written := text
	if len(text) > 0 && text[0] != '[' {
		var err error
		if written, err = yaml.YAMLToJSON(text); err != nil {
			return true
		}
	}
	operations, err := jsonpatch.DecodePatch(written)
	if err != nil {
		merged, err := kustomize.Read(text)
		return err != nil || slices.ContainsFunc(merged, func(r *resource.Resource) bool { return r.NameChangeAllowed() || r.KindChangeAllowed() })
	}
	return slices.ContainsFunc(operations, func(o jsonpatch.Operation) bool {
		to, err := o.Path()
		if _, ok := o["from"]; ok && err == nil {
			var from string
			from, err = o.From()
			return err != nil || isOfName(to) || isOfName(from)
		}
		return err != nil || isOfName(to)
	})
}

// isOfName says whether a path of a patch by JSON may lead to what an object is told apart by.
func isOfName(at string) bool {
	return !slices.ContainsFunc([]string{"/spec", "/metadata/labels", "/metadata/annotations"}, func(field string) bool {
		return at == field || strings.HasPrefix(at, field+"/")
	})
}

// name is what an object is told apart by, and its file.
type name struct {
	gvk                   schema.GroupVersionKind
	namespace, name, file string
}

// named are the names of objects, which hold less.
func named(objects []Object) []name {
	names := make([]name, len(objects))
	for i, o := range objects {
		names[i] = name{o.GroupVersionKind(), o.GetNamespace(), o.GetName(), o.Path}
	}
	return names
}

// same says whether objects as they are written are those that were built, by the names and in the
// namespaces that the kustomizations above them give. Of namespaces the outermost counts. Kustomize
// leaves some objects where they are.
//
// What goes around a name changes that of its own object and, in others, only what refers to it. No
// object refers to any here (isApart), and those that would be of one name in between are of one
// name in the end, since the kustomizations above give both the same.
func (l *listing) same(written []name, built []Object) bool {
	given := map[string]kustomization{}
	for _, k := range l.kustomizations {
		given[k.folder] = k
	}
	for i := range written {
		n := &written[i]
		for at := l.parents[n.file]; at != ""; at = l.parents[at] {
			k := given[at]
			switch isNamespace := n.gvk.Kind == "Namespace"; {
			case isNamespace && k.Namespace != "":
				n.name = k.Namespace
			case !isNamespace:
				n.namespace, n.name = cmp.Or(k.Namespace, n.namespace), k.NamePrefix+n.name+k.NameSuffix
			}
		}
	}
	isSame := func(n, of name) bool {
		n.file = of.file // which is not known of one that lost its annotations
		return n == of
	}
	return slices.EqualFunc(written, named(built), isSame) && !slices.ContainsFunc(built, func(o Object) bool { return !isApart(o.Unstructured) })
}

// above are files and the folders through which they are listed.
func (l *listing) above(files []string) map[string]bool {
	kept := map[string]bool{}
	for _, entry := range files {
		for entry != "" && !kept[entry] {
			kept[entry] = true
			entry = l.parents[entry]
		}
	}
	return kept
}

// part shows Kustomize an overlay whose kustomizations list some of their entries.
type part struct {
	*originated
	kustomizations map[string]kustomization
	// kept are those entries, by their path below the root.
	kept map[string]bool
}

func (p *part) ReadFile(name string) ([]byte, error) {
	raw, err := p.originated.ReadFile(name)
	k, ok := p.kustomizations[inside(name)]
	if err != nil || !ok {
		return raw, err
	}
	return k.with(slices.DeleteFunc(slices.Clone(k.Resources), func(entry string) bool { return !p.kept[path.Join(k.folder, entry)] }))
}

// with is the kustomization with other resources, written out.
func (k kustomization) with(resources []string) ([]byte, error) {
	k.Resources = resources
	return yaml.Marshal(k.Kustomization)
}

// is says whether what was written out is read as the kustomization again.
func (k kustomization) is(raw []byte) bool {
	var again types.Kustomization
	return again.Unmarshal(raw) == nil && reflect.DeepEqual(again, k.Kustomization)
}
