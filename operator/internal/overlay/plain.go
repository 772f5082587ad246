package overlay

import (
	"errors"
	"path"
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
// reader and side by side; it is asked wherever there is any doubt, all errors included.

// errNotPlain says that Kustomize has to be asked.
var errNotPlain = errors.New("more than a list of files")

// plain reads what the kustomization in a folder lists, files below the root in order.
func plain(fsys *rooted, below string) ([]Object, error) {
	files, err := listed(fsys, below, map[string]bool{}, 0)
	if err != nil {
		return nil, err
	}
	texts := make([][]byte, len(files))
	for i, file := range files {
		if texts[i], err = fsys.ReadFile(file); err != nil {
			return nil, err
		}
	}
	found := make([][]Object, len(files))
	failures := make([]error, len(files))
	collector.Each(len(files), func(i int) { found[i], failures[i] = plainFile(files[i], texts[i]) })
	if err := errors.Join(failures...); err != nil {
		return nil, err
	}
	return distinct(fsys, found)
}

// listed are the files of a kustomization and of those that it lists, depth first.
func listed(fsys *rooted, folder string, seen map[string]bool, depth int) ([]string, error) {
	file := kustomizationFile(fsys, folder)
	if file == "" || seen[folder] || depth > limits.SourceDepth || ambiguous(fsys, folder) || surrounds(folder, seen) {
		return nil, errNotPlain
	}
	seen[folder] = true
	raw, err := fsys.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var k types.Kustomization
	if err := k.Unmarshal(raw); err != nil {
		return nil, err
	}
	if !onlyResources(k) || len(k.Resources) == 0 || k.Kind != "" && k.Kind != types.KustomizationKind || k.APIVersion != "" && k.APIVersion != types.KustomizationVersion {
		return nil, errNotPlain
	}
	var files []string
	for _, entry := range k.Resources {
		target := path.Join(folder, entry)
		if entry == "" || isRepository(entry) {
			return nil, errNotPlain
		}
		if !fsys.IsDir(target) {
			files = append(files, target)
			continue
		}
		below, err := listed(fsys, target, seen, depth+1)
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}
	return files, nil
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
func surrounds(folder string, seen map[string]bool) bool {
	for below := range seen {
		if folder == "." || strings.HasPrefix(below, folder+"/") {
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

// untouched says whether Kustomize leaves an object as it is: it refers to none by a field
// that is corrected when names change, and has no annotation that Kustomize obeys.
func untouched(u *unstructured.Unstructured) bool {
	gvk := u.GroupVersionKind()
	if gvk.Group != "sluice.dev" && (gvk.Group != "" || gvk.Kind != "Namespace" || u.GetNamespace() != "") {
		return false
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
