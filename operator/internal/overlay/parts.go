package overlay

import (
	"path"
	"reflect"
	"slices"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// partFiles is how many files are built at a time: each build takes some milliseconds whatever
// it builds, and beyond that as long as the square of what it builds. Tests take fewer.
var partFiles = 128

// takesEachByItself says whether what a kustomization does to an object has nothing to do with
// any other. What a patch without a target is for has to be there, so that there are parts in
// which it fails. Of what is deprecated, Kustomize would warn with each part.
func (k kustomization) takesEachByItself() bool {
	if slices.ContainsFunc(k.Patches, func(p types.Patch) bool { return p.Target == nil || p.Options != nil }) {
		return false
	}
	rest := k.Kustomization
	rest.Labels, rest.CommonAnnotations, rest.Images, rest.Patches, rest.Namespace = nil, nil, nil, nil, ""
	return onlyResources(rest)
}

// inParts builds some of the files at a time, and puts all together. As they are written there
// are so many objects in them, each of another name. Where that is no longer so once they are
// built, or they are of other kinds, it is not known what the whole would have been.
func (l *listing) inParts(below string, objects int) ([]Object, error) {
	for _, k := range l.kustomizations {
		if raw, err := k.with(k.Resources); err != nil || !k.is(raw) {
			return nil, errNotPlain
		}
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
	if len(out) != objects || slices.ContainsFunc(out, func(o Object) bool { return !isApart(o.Unstructured) }) {
		return nil, errNotPlain
	}
	return distinct(l.fsys, [][]Object{out})
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
