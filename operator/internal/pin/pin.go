// Package pin reads and changes, in place, which image an overlay pins for a Workload:
// what is changed is the scalar that pins it, and every other byte stays. What comes of a
// change is built before it is handed out, and is refused unless the Workloads that were
// asked for, and nothing else, come out of it changed. It writes nothing.
package pin

import (
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
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
	if len(wants) > limits.PromotedFiles {
		return nil, fmt.Errorf("%d Workloads, more than %d (limits.PromotedFiles)", len(wants), limits.PromotedFiles)
	}
	for _, w := range wants {
		if err := w.valid(set); err != nil {
			return nil, err
		}
	}
	owned, err := newOwner(set)
	if err != nil {
		return nil, err
	}
	c := change{owned: owned, first: set, wants: wants, out: &Changed{Files: map[string][]byte{}, After: set}}
	if c.together() {
		return c.out, nil
	}
	for _, w := range wants {
		if err := c.one(w); err != nil {
			return nil, err
		}
	}
	return c.out, nil
}

// valid refuses what cannot be pinned.
func (w Want) valid(set *overlay.Set) error {
	if !digests.Valid(w.Digest) {
		return fmt.Errorf("%s: %q is no digest: it has to be sha256: and 64 hexadecimal digits in lower case", called(w.Object), w.Digest)
	}
	if w.Tag != "" {
		if _, err := images.Parse("a/b:" + w.Tag); err != nil {
			return fmt.Errorf("%s: %w", called(w.Object), err)
		}
	}
	if _, ok := find(set, w.Object); !ok {
		return fmt.Errorf("%s: the overlay does not have it", called(w.Object))
	}
	return nil
}

// change is one that is being worked out.
type change struct {
	owned *owner
	first *overlay.Set
	wants []Want
	out   *Changed
}

// together changes all at their likeliest places, with one build for all. Where that does
// not come out right they are changed one by one, to tell what is in the way.
func (c *change) together() bool {
	sources := source.New(c.first.Files, c.first.Kustomization, c.first.Shown)
	d := newDraft(c.owned, c.first)
	for _, w := range c.wants {
		o, _ := find(c.first, w.Object)
		if w.done(o, o) {
			continue
		}
		ways, err := waysTo(c.owned, c.first, sources, o, w)
		if err != nil || d.try(ways[0], sources, o, w) != nil {
			return false
		}
	}
	return len(d.edits) == 0 && len(d.notes) == 0 || c.take(d) == nil
}

// one changes the set, as far as it is changed already, for one Workload.
func (c *change) one(w Want) error {
	o, _ := find(c.out.After, w.Object)
	before, _ := find(c.first, w.Object)
	if w.done(o, before) {
		return nil
	}
	sources := source.New(c.out.After.Files, c.out.After.Kustomization, c.out.After.Shown)
	ways, err := waysTo(c.owned, c.out.After, sources, o, w)
	if err != nil {
		return err
	}
	var refused error
	for _, way := range ways {
		d := newDraft(c.owned, c.out.After)
		if err := d.try(way, sources, o, w); err != nil {
			return err
		}
		err := c.take(d)
		if err == nil {
			return nil
		}
		if refused == nil {
			refused = err
		}
	}
	return refused
}

// take builds what a draft has, and makes it part of the change if it comes out right.
func (c *change) take(d *draft) error {
	after, files, err := d.built()
	if err != nil {
		return err
	}
	if err := d.held(c.first, after, c.wants); err != nil {
		return err
	}
	maps.Copy(c.out.Files, files)
	c.out.After, c.out.Edits, c.out.Notes = after, append(c.out.Edits, d.edits...), append(c.out.Notes, d.notes...)
	return nil
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

// done says whether an object has all that is wanted.
func (w Want) done(o, before overlay.Object) bool {
	return w.pinned(o, before) && (w.Version == "" || field(o, "version") == w.Version)
}

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
func waysTo(owned *owner, set *overlay.Set, sources *source.Sources, o overlay.Object, w Want) ([]way, error) {
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
