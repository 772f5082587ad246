package overlay

import (
	"errors"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/sluice-dev/sluice/operator/internal/collector"
	"github.com/sluice-dev/sluice/operator/internal/kustomize"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Kustomize compares each object with every other three times, which is half of its time
// for a thousand of them. Where kustomizations list files and do nothing else, what it
// makes of them is those files one after the other. They are read here then, with its own
// reader and side by side. Where they do to each object what no other one has to do with, it
// builds a part of the files at a time. It is asked for the whole wherever there is any doubt,
// all errors included.

// errNotPlain says that Kustomize has to be asked for the whole.
var errNotPlain = errors.New("more than a list of files")

// plain reads what the kustomization in a folder lists, files below the root in order.
func plain(fsys *rooted, below string) ([]Object, error) {
	l := newListing(fsys)
	if err := l.add(below, "", 0); err != nil {
		return nil, err
	}
	if l.changes && len(l.files) < 2*partFiles {
		return nil, errNotPlain
	}
	objects, err := l.read()
	if err != nil || !l.changes {
		return objects, err
	}
	return l.inParts(below, named(objects))
}

// listing is what a kustomization lists, with those that it lists.
type listing struct {
	fsys *rooted
	// files in the order in which Kustomize comes to them, depth first.
	files []string
	// parents of files and folders: the folder of the kustomization that lists them.
	parents map[string]string
	// kustomizations by their files.
	kustomizations map[string]kustomization
	// size of the files that were read, in bytes.
	size int
	// changes says that one of them does more than to list.
	changes bool
}

func newListing(fsys *rooted) *listing {
	return &listing{fsys: fsys, parents: map[string]string{}, kustomizations: map[string]kustomization{}}
}

// kustomization of a folder.
type kustomization struct {
	types.Kustomization
	folder string
}

// read are the objects of all files as they are written.
func (l *listing) read() ([]Object, error) {
	texts := make([][]byte, len(l.files))
	for i, file := range l.files {
		var err error
		if texts[i], err = l.fsys.ReadFile(file); err != nil {
			return nil, err
		}
		l.size += len(texts[i])
	}
	found := make([][]Object, len(l.files))
	failures := make([]error, len(l.files))
	collector.Each(len(l.files), func(i int) { found[i], failures[i] = plainFile(l.files[i], texts[i]) })
	if err := errors.Join(failures...); err != nil {
		return nil, err
	}
	return distinct(l.fsys, found)
}

// add takes in the kustomization of a folder, which parent lists.
func (l *listing) add(folder, parent string, depth int) error {
	file := kustomizationFile(l.fsys, folder)
	if _, again := l.parents[folder]; again || file == "" || depth > limits.SourceDepth || ambiguous(l.fsys, folder) || l.surrounds(folder) {
		return errNotPlain
	}
	l.parents[folder] = parent
	raw, err := l.fsys.ReadFile(file)
	if err != nil {
		return err
	}
	k := kustomization{folder: folder}
	if err := k.Unmarshal(raw); err != nil {
		return err
	}
	if len(k.Resources) == 0 || k.Kind != "" && k.Kind != types.KustomizationKind || k.APIVersion != "" && k.APIVersion != types.KustomizationVersion {
		return errNotPlain
	}
	if !onlyResources(k.Kustomization) {
		if !k.takesEachByItself() {
			return errNotPlain
		}
		l.changes = true
	}
	l.kustomizations[file] = k
	for _, entry := range k.Resources {
		target := path.Join(folder, entry)
		if entry == "" || isRepository(entry) {
			return errNotPlain
		}
		if l.fsys.IsDir(target) {
			if err := l.add(target, folder, depth+1); err != nil {
				return err
			}
			continue
		}
		l.files = append(l.files, target)
		l.parents[target] = folder
	}
	return nil
}

// ambiguous says whether a folder has several kustomizations, which Kustomize refuses.
func ambiguous(fsys *rooted, folder string) bool {
	found := 0
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		if fsys.Exists(path.Join(folder, name)) {
			found++
		}
	}
	return found > 1
}

// surrounds says whether a folder has one in it that was read before: Kustomize takes one
// that lists what it lies in for a cycle.
func (l *listing) surrounds(folder string) bool {
	for _, k := range l.kustomizations {
		if folder == "." || strings.HasPrefix(k.folder, folder+"/") {
			return true
		}
	}
	return false
}

func plainFile(file string, text []byte) ([]Object, error) {
	resources, err := kustomize.Read(text)
	if err != nil {
		return nil, err
	}
	out := make([]Object, 0, len(resources))
	for _, r := range resources {
		u, err := directly(r)
		if err != nil {
			return nil, err
		}
		if !untouched(u) {
			return nil, errNotPlain
		}
		unmark(u)
		out = append(out, Object{Unstructured: u, Path: file})
	}
	return out, nil
}

// untouched says whether Kustomize leaves an object as it is: it is apart, and has no annotation
// that Kustomize obeys.
func untouched(u *unstructured.Unstructured) bool {
	if !isApart(u) {
		return false
	}
	// To Kustomize, the name 1 is that of an object that is named "1".
	for _, field := range []string{"name", "namespace"} {
		if _, _, err := unstructured.NestedString(u.Object, "metadata", field); err != nil {
			return false
		}
	}
	// Kustomize makes a text of what is none.
	annotations, _, err := unstructured.NestedStringMap(u.Object, "metadata", "annotations")
	if err != nil {
		return false
	}
	for key := range annotations {
		if host, _, _ := strings.Cut(key, "/"); strings.HasSuffix(host, "kubernetes.io") || strings.HasSuffix(host, "k8s.io") {
			return false
		}
	}
	return true
}

// isApart says whether an object refers to none by a field that Kustomize corrects when names
// change. It does in those of a Deployment of whatever group.
func isApart(u *unstructured.Unstructured) bool {
	gvk := u.GroupVersionKind()
	return gvk.Group == "sluice.dev" && slices.Contains([]string{"Workload", "Gate", "Exemption"}, gvk.Kind) || gvk.Group == "" && gvk.Kind == "Namespace" && u.GetNamespace() == ""
}

// distinct puts all together. Two that Kustomize might take for one are for it to judge.
func distinct(fsys *rooted, found [][]Object) ([]Object, error) {
	var out []Object
	seen := map[[3]string]bool{}
	for _, objects := range found {
		for _, o := range objects {
			namespace := o.GetNamespace()
			if namespace == "" {
				namespace = "default"
			}
			id := [3]string{o.GetKind(), namespace, o.GetName()}
			if seen[id] {
				return nil, errNotPlain
			}
			seen[id] = true
			o.File = fsys.shown(o.Path)
			out = append(out, o)
		}
	}
	return out, nil
}
