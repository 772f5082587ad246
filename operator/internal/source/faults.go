package source

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

// Faults are what Kustomize passes over in silence in an overlay that was built to these
// objects: entries of images that reach nothing, and references to what a generator made
// in another namespace.
func (s *Sources) Faults(objects []Object) []report.Fault {
	if s.top == "" {
		return nil
	}
	out := append(s.idleImages(objects), s.dangling(objects)...)
	return out[:min(len(out), limits.Findings)]
}

// reach is the layer that was built with its components: what they change nothing changes
// after them.
func (s *Sources) reach() []*layer {
	top := s.layer(s.top)
	if top == nil || field(top.root, "replacements") != nil || field(top.root, "transformers") != nil {
		return nil
	}
	return append(s.expand(s.top, top.entries("components"), 0), top)
}

func (s *Sources) idleImages(objects []Object) []report.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.reach()
	s.wayTo("") // nothing is there, but all layers are found on the way
	folders := make([]string, 0, len(s.layers))
	for folder := range s.layers {
		folders = append(folders, folder)
	}
	sort.Strings(folders)
	var out []report.Fault
	uses, scalars := sync.OnceValue(func() []use { return usesOf(objects) }), sync.OnceValue(s.scalars)
	for _, folder := range folders {
		l := s.layers[folder]
		if l == nil || field(l.root, "images") == nil {
			continue
		}
		for i, entry := range field(l.root, "images").Content {
			message := ""
			if slices.Contains(last, l) {
				message = idle(deref(entry), uses())
			} else if !written(deref(entry), scalars()) {
				message = "matches no image below this kustomization; take the entry out, or correct its name"
			}
			if message == "" {
				continue
			}
			at := spot{file: l.file, field: fields([]step{{key: "images", index: -1}, {index: i}}), node: entry, within: entry, document: l.root}
			out = append(out, report.Fault{Rule: "images", Message: "images: " + text(entry, "name") + " " + message, Place: s.place(at, "")})
		}
	}
	return out
}

// use is an image of an object.
type use struct {
	object map[string]any
	images.Found
}

func usesOf(objects []Object) []use {
	var out []use
	for _, o := range objects {
		for _, f := range imagesOf(o.Content) {
			out = append(out, use{o.Content, f})
		}
	}
	return out
}

// idle says what an entry of images that is applied last does not do; "" where it works.
func idle(entry *yaml.Node, uses []use) string {
	reached := false
	for _, u := range uses {
		next, key := retag(entry, u.Image)
		if key != "" && next != u.Image {
			return fmt.Sprintf("does not reach %s %s: Kustomize changes images of pods, and of other kinds where a configuration says so; "+
				"add the component kustomize/components/workload-kustomize of Sluice to this kustomization", images.ObjectName(u.object), u.Path)
		}
		if key != "" || retagged(entry, u.Image) {
			reached = true
		}
	}
	if reached {
		return ""
	}
	return "matches no image; take the entry out, or correct its name"
}

// retagged says whether an image is what an entry makes of its own.
func retagged(entry *yaml.Node, image string) bool {
	name := text(entry, "newName")
	if name == "" {
		return false
	}
	rest, ok := strings.CutPrefix(image, name)
	return ok && (rest == "" || rest[0] == ':' || rest[0] == '@')
}

// scalars of all files, and of the texts in them that are YAML themselves.
func (s *Sources) scalars() []*yaml.Node {
	var out []*yaml.Node
	take := func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode {
			out = append(out, n)
		}
	}
	for file := range s.files {
		for _, doc := range s.file(file).parsed() {
			each(doc, func(n *yaml.Node) {
				take(n)
				if n.Kind == yaml.ScalarNode && strings.ContainsAny(n.Value, "\n{[") {
					for _, inner := range decode([]byte(n.Value)) {
						each(inner, take)
					}
				}
			})
		}
	}
	return out
}

// written says whether any of the texts in the files is an image that the entry would match.
func written(entry *yaml.Node, scalars []*yaml.Node) bool {
	own := field(entry, "name")
	return slices.ContainsFunc(scalars, func(n *yaml.Node) bool {
		_, key := retag(entry, n.Value)
		return n != own && key != ""
	})
}

// imagesOf are the images of pods, and those of Workloads.
func imagesOf(content map[string]any) []images.Found {
	found, err := images.Find(content)
	if err != nil {
		return nil // the gate says so
	}
	if content["kind"] != v1beta1.WorkloadKind {
		return found
	}
	for _, at := range []string{"spec.image", "spec.backup.image"} {
		if more, err := images.FindAt(content, at); err == nil {
			found = append(found, more...)
		}
	}
	return found
}

// hashed is the end that Kustomize gives the names of what it generates.
var hashed = regexp.MustCompile(`-[a-z0-9]{10}$`)

// dangling finds references that keep a plain name, since what the generator made is in
// another namespace, or in none.
func (s *Sources) dangling(objects []Object) []report.Fault {
	there := map[string]bool{}
	for _, o := range objects {
		there[images.ObjectName(o.Content)] = true
	}
	var out []report.Fault
	for _, made := range objects {
		kind, _ := made.Content["kind"].(string)
		plain := hashed.ReplaceAllString(name(made.Content), "")
		if kind != "ConfigMap" && kind != "Secret" || plain == name(made.Content) || !s.isLayer(made.Path) {
			continue
		}
		for _, o := range objects {
			if namespace(o.Content) == namespace(made.Content) || there[kind+"/"+namespace(o.Content)+"/"+plain] {
				continue
			}
			for _, at := range references(o.Content, kind, plain) {
				where := "no namespace"
				if ns := namespace(made.Content); ns != "" {
					where = "namespace " + ns
				}
				out = append(out, report.Fault{Rule: "reference", Place: s.Find(o, at), Message: fmt.Sprintf(
					"%s %s refers to %s %s, which nothing here makes: the one that %s generates is %s in %s; give the generator the namespace %s",
					images.ObjectName(o.Content), at, kind, plain, s.shown(made.Path), name(made.Content), where, namespace(o.Content))})
			}
		}
	}
	return out
}

func (s *Sources) isLayer(file string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.layer(path.Dir(file))
	return l != nil && l.file == file
}

// holders are the fields whose name, or secretName, names an object of a kind.
var holders = map[string]map[string]bool{
	"ConfigMap": {"configMap": true, "configMapRef": true, "configMapKeyRef": true},
	"Secret":    {"secret": true, "secretRef": true, "secretKeyRef": true, "imagePullSecrets": true, "secrets": true},
}

// references are the fields of an object that name an object of a kind.
func references(content map[string]any, kind, called string) []string {
	var out []string
	var walk func(at, holder string, v any)
	walk = func(at, holder string, v any) {
		switch v := v.(type) {
		case map[string]any:
			keys := make([]string, 0, len(v))
			for k := range v {
				keys = append(keys, k)
			}
			sort.Strings(keys)
			for _, k := range keys {
				if v[k] == called && holders[kind][holder] && (k == "name" || k == "secretName") {
					out = append(out, at+"."+k)
				}
				walk(strings.TrimPrefix(at+"."+k, "."), k, v[k])
			}
		case []any:
			for i, x := range v {
				walk(fmt.Sprintf("%s[%d]", at, i), holder, x)
			}
		}
	}
	walk("", "", content["spec"])
	for i := range out {
		out[i] = "spec" + "." + strings.TrimPrefix(out[i], ".")
	}
	return out
}
