// Package pin reads and changes, in place, which image an overlay pins for a Workload:
// what is changed is the scalar that pins it, and every other byte stays. What comes of a
// change is built before it is handed out, and is refused unless the Workloads that were
// asked for, and nothing else, come out of it changed. It writes nothing.
package pin

import (
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/report"
	"github.com/sluice-dev/sluice/operator/internal/source"
)

// Pin is what an overlay pins for a Workload.
type Pin struct {
	// Image is spec.image as it is built.
	Image string
	// Repository as registry/repository in full; Tag and Digest are "" where there is none.
	Repository, Tag, Digest string
	// Version is spec.version, "" where it is not set.
	Version string
	// Place of what set the image last. With a note in it that is not sure.
	Place report.Place
	// Own says that this is in the overlay's folder, and not in a base that others may use.
	Own bool
}

// Want is what an overlay shall pin for one Workload.
type Want struct {
	Object overlay.Object
	// Digest as sha256:…
	Digest string
	// Tag beside the digest. "" adds none, and takes one away that stood beside another
	// digest: it would name another build than the one that runs.
	Tag string
	// Version for spec.version, where the overlay sets one; "" leaves it.
	Version string
}

// Changed is what has to be written.
type Changed struct {
	// Files by their path below the set's root, with their new bytes; none when the overlay
	// pins all this already.
	Files map[string][]byte
	// After is what the overlay is built to with these files.
	After *overlay.Set
	// Edits say what was changed, each as file:line: what.
	Edits []string
	// Notes are about what was left as it is, or moves along.
	Notes []string
}

// Read returns what a set pins for one of its Workloads.
func Read(set *overlay.Set, o overlay.Object) (Pin, error) {
	owned, err := newOwner(set)
	if err != nil {
		return Pin{}, err
	}
	p, _, err := read(owned, source.New(set.Files, set.Kustomization, set.Shown), o)
	return p, err
}

func read(owned *owner, sources *source.Sources, o overlay.Object) (Pin, source.Setting, error) {
	image := field(o, "image")
	ref, err := images.Parse(image)
	if err != nil {
		return Pin{}, source.Setting{}, fmt.Errorf("%s: spec.image: %w", called(o), err)
	}
	at := sources.Setting(source.Object{Content: o.Object, Path: o.Path}, "spec.image")
	return Pin{
		Image: image, Repository: ref.Repository, Tag: ref.Tag, Digest: ref.Digest, Version: field(o, "version"),
		Place: at.Place, Own: at.Document != nil && owned.own(at.File),
	}, at, nil
}

// field of spec that is a text.
func field(o overlay.Object, key string) string {
	spec, _ := o.Object["spec"].(map[string]any)
	text, _ := spec[key].(string)
	return text
}

func called(o overlay.Object) string { return images.ObjectName(o.Object) }

// Change works out how a set is to be changed for it to pin what is wanted. All of it is
// one change: Workloads that share one pin have to be asked for together.
func Change(set *overlay.Set, wants ...Want) (*Changed, error) {
	owned, err := newOwner(set)
	if err != nil {
		return nil, err
	}
	out := &Changed{Files: map[string][]byte{}, After: set}
	for _, w := range wants {
		if !images.ValidDigest(w.Digest) {
			return nil, fmt.Errorf("%s: %q is no digest: it has to be sha256: and 64 hexadecimal digits in lower case", called(w.Object), w.Digest)
		}
		if w.Tag != "" {
			if _, err := images.Parse("a/b:" + w.Tag); err != nil {
				return nil, fmt.Errorf("%s: %w", called(w.Object), err)
			}
		}
		if err := out.one(owned, set, w, wants); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// one changes the set, as far as it is changed already, for one Workload.
func (c *Changed) one(owned *owner, first *overlay.Set, w Want, all []Want) error {
	o, ok := find(c.After, w.Object)
	if !ok {
		return fmt.Errorf("%s: the overlay does not have it", called(w.Object))
	}
	before, ok := find(first, w.Object)
	if !ok {
		return fmt.Errorf("%s: the overlay does not have it", called(w.Object))
	}
	if w.pinned(o, before) && (w.Version == "" || field(o, "version") == w.Version) {
		return nil
	}
	ways, err := waysTo(owned, c.After, o, w)
	if err != nil {
		return err
	}
	var refused error
	for _, way := range ways {
		d := newDraft(owned, c.After, w)
		if err := way(d); err != nil {
			return err
		}
		if err := d.version(o); err != nil {
			return err
		}
		after, files, err := d.built()
		if err == nil {
			err = d.held(first, after, all)
		}
		if err != nil {
			if refused == nil {
				refused = err
			}
			continue
		}
		for file, raw := range files {
			c.Files[file] = raw
		}
		c.After, c.Edits, c.Notes = after, append(c.Edits, d.edits...), append(c.Notes, d.notes...)
		return nil
	}
	return refused
}

// find is the same object in another set.
func find(set *overlay.Set, o overlay.Object) (overlay.Object, bool) {
	for _, other := range set.Objects {
		if identity(other) == identity(o) {
			return other, true
		}
	}
	return overlay.Object{}, false
}

func identity(o overlay.Object) string { return o.GroupVersionKind().Group + "/" + called(o) }

// pinned says whether an object has the image that is wanted; before is what it was.
func (w Want) pinned(o, before overlay.Object) bool {
	ref, err := images.Parse(field(o, "image"))
	if err != nil || ref.Digest != w.Digest {
		return false
	}
	was, err := images.Parse(field(before, "image"))
	if err != nil || ref.Repository != was.Repository {
		return false
	}
	if w.Tag != "" {
		return ref.Tag == w.Tag
	}
	return ref.Tag == "" || was.Digest == w.Digest && was.Tag == ref.Tag
}

// way is one place to pin in.
type way func(*draft) error

// waysTo are the places that may pin the image of an object, the likeliest first. Which
// one does is shown by building.
func waysTo(owned *owner, set *overlay.Set, o overlay.Object, w Want) ([]way, error) {
	sources := source.New(set.Files, set.Kustomization, set.Shown)
	now, at, err := read(owned, sources, o)
	if err != nil {
		return nil, err
	}
	if now.Digest == w.Digest && (w.Tag == "" || w.Tag == now.Tag) {
		return []way{func(*draft) error { return nil }}, nil // the version alone
	}
	var out []way
	if now.Own {
		out = append(out, func(d *draft) error { return d.pin(at, now) })
	}
	entries := entriesFor(owned, set, sources, o, now)
	for _, e := range entries {
		out = append(out, func(d *draft) error { return d.pin(e, now) })
	}
	switch {
	case at.Document == nil && len(out) == 0:
		return nil, fmt.Errorf("%s: %s: where its image is set is not sure (%s): pin it by an entry of images in the overlay", called(o), at.Place, at.Place.Note)
	case set.Kustomization != "" && !now.Own && len(entries) == 0:
		out = append(out, func(d *draft) error { return d.add(o, now) })
	}
	return out, nil
}

// entriesFor are the overlay's own entries of images that are about an image, the last one
// first.
func entriesFor(owned *owner, set *overlay.Set, sources *source.Sources, o overlay.Object, now Pin) []source.Setting {
	var out []source.Setting
	bare := repository(now.Image)
	for _, file := range sources.Kustomizations(source.Object{Content: o.Object, Path: o.Path}) {
		p, err := newPage(set.Shown(file), set.Files[file])
		if err != nil || !owned.own(file) || len(p.documents) != 1 || len(p.documents[0].Content) != 1 {
			continue
		}
		root := p.documents[0].Content[0]
		_, list := member(root, "images")
		for i := 0; list != nil && i < len(list.Content); i++ {
			entry := list.Content[i]
			if entry.Kind == yaml.AliasNode {
				entry = entry.Alias
			}
			if _, about := source.Retags(entry, bare); !about && newName(entry) != bare {
				continue
			}
			out = append([]source.Setting{{File: file, Document: root, Field: fmt.Sprintf("images[%d].digest", i)}}, out...)
		}
	}
	return out
}

func newName(entry *yaml.Node) string {
	_, value := member(entry, "newName")
	return text(value)
}

// repository is an image's name as it is written, without tag and digest.
func repository(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return name
}

// held holds what was built against what was before: the Workloads that were asked for
// have what is wanted, and all else is as it was.
func (d *draft) held(before, after *overlay.Set, all []Want) error {
	if len(before.Objects) != len(after.Objects) {
		return fmt.Errorf("%s: the change would make %d objects of %d; change it by hand", called(d.want.Object), len(after.Objects), len(before.Objects))
	}
	wanted := map[string]Want{}
	for _, w := range all {
		wanted[identity(w.Object)] = w
	}
	for _, o := range after.Objects {
		was, ok := find(before, o)
		if !ok {
			return fmt.Errorf("%s: the change would make it; change it by hand", called(o))
		}
		if reflect.DeepEqual(o.Object, was.Object) && identity(o) != identity(d.want.Object) {
			continue
		}
		w, asked := wanted[identity(o)]
		if asked && w.pinned(o, was) {
			if err := d.rest(o, was, w.Version); err != nil {
				return err
			}
			continue
		}
		if err := d.moved(o, was, asked); err != nil {
			return err
		}
	}
	return nil
}

// moved says what is wrong with an object that comes out another than is wanted.
func (d *draft) moved(o, was overlay.Object, asked bool) error {
	where := strings.Join(d.edits, "; ")
	switch {
	case identity(o) == identity(d.want.Object):
		return fmt.Errorf("%s: its image is still %s after %s: add the component kustomize/components/workload-kustomize of Sluice to this kustomization, or pin it where it is set last",
			called(o), field(o, "image"), where)
	case asked:
		return fmt.Errorf("%s: one pin is for it and for %s (%s), which shall become different images: give each an entry or a patch of its own", called(o), called(d.want.Object), where)
	case o.GetKind() == d.want.Object.GetKind():
		return fmt.Errorf("%s: it would change along with %s (%s): promote both to the same digest, or give each a pin of its own", called(o), called(d.want.Object), where)
	}
	return d.rest(o, was, "")
}

// rest allows what else an object may have changed in: a version that was asked for, and
// images that were the very one that was pinned, and still are.
func (d *draft) rest(o, was overlay.Object, version string) error {
	old, _ := find(d.set, d.want.Object)
	from, to := field(old, "image"), d.image
	for _, at := range differences("", was.Object, o.Object) {
		switch {
		case o.GetKind() == d.want.Object.GetKind() && at.path == ".spec.image":
		case o.GetKind() == d.want.Object.GetKind() && at.path == ".spec.version" && at.after == version:
		case at.before == from && at.after == to:
			d.notes = append(d.notes, fmt.Sprintf("%s %s moves along: it is pinned in the same place", called(o), at.path[1:]))
		default:
			return fmt.Errorf("%s: %s would change too (%s): give it a pin of its own", called(o), at.path[1:], strings.Join(d.edits, "; "))
		}
	}
	return nil
}

// difference of two objects at a path.
type difference struct {
	path          string
	before, after any
}

func differences(path string, before, after any) []difference {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	var out []difference
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok || len(a) != len(b) {
			break
		}
		for key := range b {
			out = append(out, differences(path+"."+key, b[key], a[key])...)
		}
		return out
	case []any:
		a, ok := after.([]any)
		if !ok || len(a) != len(b) {
			break
		}
		for i := range b {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), b[i], a[i])...)
		}
		return out
	}
	return []difference{{path, before, after}}
}
