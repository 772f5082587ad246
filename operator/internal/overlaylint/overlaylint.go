// Package overlaylint finds what is wrong with overlays although they build: parts that
// have no effect, images by tag, and differences between environments that nobody asked
// for.
package overlaylint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

// Severities of findings.
const (
	Error   = "error"
	Warning = "warning"
)

// Rules of findings.
const (
	RuleDeadPatch   = "dead-patch"
	RuleDeadImage   = "dead-image"
	RuleUnusedFile  = "unused-file"
	RuleNotPinned   = "not-pinned"
	RuleDifference  = "environments-differ"
	RuleNotInEvery  = "not-in-every-environment"
	remedyDifferent = "make them the same, or say that it is meant: --expect="
)

// Finding is one thing that is wrong.
type Finding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	// File where it stands, as the user would type it; empty for what is between files.
	File string `json:"file,omitempty"`
	// Object as Kind/namespace/name, where it is about one.
	Object  string `json:"object,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

// Expected are the fields of Workloads that are there to differ between environments.
var Expected = []string{
	"spec.image", "spec.version", "spec.replicas", "spec.resources", "spec.availability", "spec.storage.size",
	"spec.backup.image", "spec.backup.schedule", "spec.backup.s3",
}

// Environment is an overlay by its name, and what Workloads of it are and become.
type Environment struct {
	Name      string
	Workloads []Workload
}

// Workload is one in an environment.
type Workload struct {
	File     string
	Object   *unstructured.Unstructured
	Children []map[string]any
}

func (w Workload) name() string { return w.Object.GetNamespace() + "/" + w.Object.GetName() }

// Sort orders findings by file, object, path and rule.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Rule, b.Rule))
	})
}

// Pins finds images that are named by tag alone.
func Pins(e Environment) ([]Finding, error) {
	var out []Finding
	for _, w := range e.Workloads {
		found, err := images.Collect(w.Children)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.File, err)
		}
		for _, image := range found {
			if ref, err := images.Parse(image.Ref); err == nil && ref.Pinned() {
				continue
			}
			for _, at := range image.Locations {
				out = append(out, Finding{
					Rule: RuleNotPinned, Severity: Error, File: w.File, Object: at.Object, Path: at.Path,
					Message: fmt.Sprintf("in %s the image %s is named by tag: what was tested elsewhere need not be what runs", e.Name, image.Ref),
					Remedy:  "name it by digest, such as with images: in the overlay",
				})
			}
		}
	}
	return out, nil
}

// byName are the Workloads of the environments by what they are called in each of them: by
// name alone where their environment is all that their namespaces tell, as shop-dev and
// shop-prod do.
func byName(environments []Environment) map[string]map[string]Workload {
	bare := map[string]map[string][]Workload{}
	for _, e := range environments {
		for _, w := range e.Workloads {
			if bare[w.Object.GetName()] == nil {
				bare[w.Object.GetName()] = map[string][]Workload{}
			}
			bare[w.Object.GetName()][e.Name] = append(bare[w.Object.GetName()][e.Name], w)
		}
	}
	out := map[string]map[string]Workload{}
	add := func(name, environment string, w Workload) {
		if out[name] == nil {
			out[name] = map[string]Workload{}
		}
		out[name][environment] = w
	}
	for name, workloads := range bare {
		namespaces, once := map[string]bool{}, true
		for _, all := range workloads {
			once = once && len(all) == 1
			for _, w := range all {
				namespaces[w.Object.GetNamespace()] = true
			}
		}
		for environment, all := range workloads {
			for _, w := range all {
				if once && len(namespaces) > 1 {
					add(name, environment, w)
				} else {
					add(w.name(), environment, w)
				}
			}
		}
	}
	return out
}

// Differences finds fields of a Workload that differ between environments and are not
// expected to, and Workloads that some environments do not have.
func Differences(environments []Environment, expected []string) ([]Finding, error) {
	byName := byName(environments)
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		object := v1beta1.WorkloadKind + "/" + name
		var have, lack []string
		for _, e := range environments {
			if _, ok := byName[name][e.Name]; ok {
				have = append(have, e.Name)
			} else {
				lack = append(lack, e.Name)
			}
		}
		if len(lack) > 0 {
			out = append(out, Finding{
				Rule: RuleNotInEvery, Severity: Warning, Object: object,
				Message: fmt.Sprintf("it is in %s and not in %s", strings.Join(have, ", "), strings.Join(lack, ", ")),
				Remedy:  "add it to the base, or leave it if it is on its way",
			})
		}
		paths, err := differing(byName[name], have, expected)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object, err)
		}
		for _, path := range paths {
			out = append(out, Finding{
				Rule: RuleDifference, Severity: Warning, Object: object, Path: path,
				Message: "it is not the same in each environment: " + groups(byName[name], have, path),
				Remedy:  remedyDifferent + path,
			})
		}
	}
	return out, nil
}

// differing are the fields in which the first of the environments differs from another.
func differing(workloads map[string]Workload, have, expected []string) ([]string, error) {
	found := map[string]bool{}
	for _, other := range have[1:] {
		changes, err := delta.Compare(workloads[have[0]].Object, workloads[other].Object)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			// An entry of a list is at another place as soon as one before it is missing.
			path, _, _ := strings.Cut(c.Path, "[")
			if path == "metadata.namespace" {
				continue // the two were put beside each other all the same
			}
			if !slices.ContainsFunc(expected, func(e string) bool { return path == e || strings.HasPrefix(path, e+".") }) {
				found[path] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// groups says which environments have the same there. It shows no values: they may be
// secret.
func groups(workloads map[string]Workload, have []string, path string) string {
	var order []string
	same := map[string][]string{}
	for _, name := range have {
		value, _, _ := unstructured.NestedFieldNoCopy(workloads[name].Object.Object, strings.Split(path, ".")...)
		raw, _ := json.Marshal(value) // it came from JSON
		if same[string(raw)] == nil {
			order = append(order, string(raw))
		}
		same[string(raw)] = append(same[string(raw)], name)
	}
	var out []string
	for _, raw := range order {
		out = append(out, strings.Join(same[raw], " and "))
	}
	return strings.Join(out, "; ")
}

// Dead finds patches and images: entries without effect, and files that nothing reads, in
// an overlay and the kustomizations within its folder. Each entry is left out in turn: a
// build costs some milliseconds.
func Dead(f *overlay.Folder) ([]Finding, error) {
	whole, err := f.Build("", nil)
	if err != nil {
		return nil, err
	}
	files, err := f.Kustomizations(whole.Read)
	if err != nil {
		return nil, err
	}
	d := dead{folder: f, whole: whole}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if err := d.kustomization(file, files[file]); err != nil {
			return nil, err
		}
	}
	unread, err := f.Unread(whole.Read)
	if err != nil {
		return nil, err
	}
	for _, file := range unread {
		d.found = append(d.found, Finding{
			Rule: RuleUnusedFile, Severity: Warning, File: f.Shown(file),
			Message: "no kustomization reads it", Remedy: "name it in the kustomization, or delete it",
		})
	}
	return d.found, nil
}

type dead struct {
	folder *overlay.Folder
	whole  overlay.Built
	builds int
	found  []Finding
}

func (d *dead) add(rule, file, path, message, remedy string) {
	d.found = append(d.found, Finding{Rule: rule, Severity: Error, File: d.folder.Shown(file), Path: path, Message: message, Remedy: remedy})
}

func (d *dead) kustomization(file string, k types.Kustomization) error {
	for i, p := range k.Patches {
		without, same, err := d.without(file, func(k *types.Kustomization) { k.Patches = slices.Delete(k.Patches, i, i+1) })
		if err != nil || !same {
			// What fails without the patch needs it.
			if isBound(err) {
				return err
			}
			continue
		}
		at := fmt.Sprintf("patches[%d]", i)
		if p.Path != "" {
			at += " (" + p.Path + ")"
		}
		if p.Target != nil && !matches(p.Target, without) {
			d.add(RuleDeadPatch, file, at, "its target matches nothing: "+selector(p.Target), "correct the target, or delete the patch")
			continue
		}
		d.add(RuleDeadPatch, file, at, "it changes nothing: what it sets is so already", "delete it")
	}
	for i, image := range k.Images {
		without, same, err := d.without(file, func(k *types.Kustomization) { k.Images = slices.Delete(k.Images, i, i+1) })
		if err != nil || !same {
			if isBound(err) {
				return err
			}
			continue
		}
		at := fmt.Sprintf("images[%d] (%s)", i, image.Name)
		if named(image.Name, without) {
			d.add(RuleDeadImage, file, at, "it changes nothing, although the image is there: it is so already, or Kustomize does not know the field",
				"delete it, or add the component workload-kustomize, by which Kustomize knows the images of Workloads")
			continue
		}
		d.add(RuleDeadImage, file, at, "no object has this image", "correct the name, which is that of the base, or delete the entry")
	}
	return nil
}

// errBuilds says that a lint would take too long.
type errBuilds struct{}

func (errBuilds) Error() string {
	return fmt.Sprintf("more than %d patches and images in one overlay (limits.LintBuilds)", limits.LintBuilds)
}

func isBound(err error) bool { _, ok := err.(errBuilds); return ok }

// without builds the overlay without one part, and says whether that is the same.
func (d *dead) without(file string, edit func(*types.Kustomization)) ([]overlay.Object, bool, error) {
	if d.builds++; d.builds > limits.LintBuilds {
		return nil, false, errBuilds{}
	}
	built, err := d.folder.Build(file, edit)
	if err != nil {
		return nil, false, err
	}
	same := slices.EqualFunc(d.whole.Objects, built.Objects, func(a, b overlay.Object) bool {
		return reflect.DeepEqual(a.Object, b.Object)
	})
	return built.Objects, same, nil
}

// selector is a target as it is written: kind, name and what else there is of it.
func selector(t *types.Selector) string {
	var out []string
	for _, part := range [][2]string{
		{"group", t.Group}, {"version", t.Version}, {"kind", t.Kind}, {"name", t.Name}, {"namespace", t.Namespace},
		{"labelSelector", t.LabelSelector}, {"annotationSelector", t.AnnotationSelector},
	} {
		if part[1] != "" {
			out = append(out, part[0]+" "+part[1])
		}
	}
	return strings.Join(out, ", ")
}

// matches says whether a target selects any of the objects, by what is not labels and
// annotations: a patch for those that it selects in addition changes nothing either.
func matches(target *types.Selector, objects []overlay.Object) bool {
	r, err := types.NewSelectorRegex(target)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(objects, func(o overlay.Object) bool {
		gvk := o.GroupVersionKind()
		return r.MatchName(o.GetName()) && r.MatchNamespace(o.GetNamespace()) && r.MatchGvk(resid.Gvk{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind})
	})
}

// named says whether an image of this name stands anywhere.
func named(name string, objects []overlay.Object) bool {
	var has func(v any) bool
	has = func(v any) bool {
		switch t := v.(type) {
		case map[string]any:
			for _, x := range t {
				if has(x) {
					return true
				}
			}
		case []any:
			return slices.ContainsFunc(t, has)
		case string:
			return t == name || strings.HasPrefix(t, name+":") || strings.HasPrefix(t, name+"@")
		}
		return false
	}
	return slices.ContainsFunc(objects, func(o overlay.Object) bool { return has(o.Object) })
}
