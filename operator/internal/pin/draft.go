package pin

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/source"
)

// draft is one attempt to change a set.
type draft struct {
	owned *owner
	set   *overlay.Set
	pages map[string]*page
	// want is the one that is worked at.
	want Want
	// tried are the objects that were worked at, and whether their version was written.
	tried map[string]bool
	// moved are the images that become others.
	moved        map[any]any
	edits, notes []string
}

func newDraft(owned *owner, set *overlay.Set) *draft {
	return &draft{owned: owned, set: set, pages: map[string]*page{}, tried: map[string]bool{}, moved: map[any]any{}}
}

// try pins one Workload in one place.
func (d *draft) try(w way, sources *source.Sources, o overlay.Object, want Want) error {
	d.want, d.tried[identity(o)] = want, false
	if err := w(d); err != nil {
		return err
	}
	return d.version(sources, o)
}

// generated is how tools mark what they write.
var generated = regexp.MustCompile(`(?im)^\s*#.*\bdo not edit\b`)

// page opens a file for changes.
func (d *draft) page(file string) (*page, error) {
	if known, ok := d.pages[file]; ok {
		return known, nil
	}
	shown := d.set.Shown(file)
	raw, ok := d.set.Files[file]
	if !ok || d.set.Root == "" {
		return nil, fmt.Errorf("%s: only files can be changed", shown)
	}
	if !d.owned.own(file) {
		return nil, fmt.Errorf("%s: it is outside the overlay, and others may use it: pin the image in the overlay", shown)
	}
	for at := file; at != "."; at = path.Dir(at) {
		if info, err := os.Lstat(filepath.Join(d.set.Root, filepath.FromSlash(at))); err != nil || info.Mode()&os.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s: %s is a link: change what it leads to, or put a file in its place", shown, d.set.Shown(at))
		}
	}
	if line := generated.FindIndex(raw); line != nil {
		return nil, fmt.Errorf("%s:%d: the file is generated: change what it is generated from", shown, strings.Count(string(raw[:line[0]]), "\n")+1)
	}
	p, err := newPage(shown, raw)
	d.pages[file] = p
	return p, err
}

// open returns the page and the node that a setting's field starts from.
func (d *draft) open(at source.Setting) (*page, *yaml.Node, error) {
	p, err := d.page(at.File)
	if err != nil {
		return nil, nil, err
	}
	if at.Text != nil {
		text, err := p.at(at.Text)
		if err != nil {
			return nil, nil, err
		}
		if p, err = p.text(text); err != nil {
			return nil, nil, err
		}
	}
	n, err := p.at(at.Document)
	return p, n, err
}

// isEntry is a field of an entry of images.
var isEntry = regexp.MustCompile(`^(images\[\d+\])\.`)

// pin writes the digest where the image is set.
func (d *draft) pin(at source.Setting, now Pin) error {
	p, document, err := d.open(at)
	if err != nil {
		return err
	}
	image := repository(now.Image)
	if d.want.Tag != "" {
		image += ":" + d.want.Tag
	}
	image += "@" + d.want.Digest
	d.moved[now.Image] = image
	if m := isEntry.FindStringSubmatch(at.Field); m != nil && at.Text == nil {
		n, err := p.follow(document, m[1])
		if err != nil {
			return err
		}
		d.edit(p, n, m[1])
		return p.entry(n, d.want.Tag, d.want.Digest)
	}
	n, err := p.follow(document, at.Field)
	if err != nil {
		return err
	}
	d.edit(p, n, at.Field)
	return p.set(n, image)
}

// edit notes what is changed.
func (d *draft) edit(p *page, n *yaml.Node, what string) {
	d.edits = append(d.edits, fmt.Sprintf("%s:%d: %s", p.name, n.Line, what))
}

// version writes spec.version where the overlay sets it.
func (d *draft) version(sources *source.Sources, o overlay.Object) error {
	was := field(o, "version")
	if d.want.Version == "" || was == d.want.Version {
		return nil
	}
	at := sources.Setting(source.Object{Content: o.Object, Path: o.Path}, "spec.version")
	if at.Document == nil || !d.owned.own(at.File) {
		switch {
		case was == "":
			d.notes = append(d.notes, called(o)+": it has no spec.version, and gets none")
		default:
			d.notes = append(d.notes, fmt.Sprintf("%s: spec.version stays %q: it is not set in this overlay but at %s", called(o), was, at.Place))
		}
		return nil
	}
	p, document, err := d.open(at)
	if err != nil {
		return err
	}
	n, err := p.follow(document, at.Field)
	if err != nil {
		return err
	}
	d.edit(p, n, at.Field)
	d.tried[identity(o)] = true
	return p.set(n, d.want.Version)
}

// add pins by a new entry of images in the overlay's own kustomization.
func (d *draft) add(o overlay.Object, now Pin) error {
	file := ""
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		if f := path.Join(d.set.Kustomization, name); d.set.Files[f] != nil {
			if file != "" {
				return fmt.Errorf("%s: %s is beside it: a folder has one kustomization; delete the other one", d.set.Shown(file), name)
			}
			file = f
		}
	}
	p, err := d.page(file)
	if err != nil {
		return err
	}
	name := repository(now.Image)
	fields := []string{"name", name}
	image := name
	if d.want.Tag != "" {
		fields = append(fields, "newTag", d.want.Tag)
		image += ":" + d.want.Tag
	}
	image += "@" + d.want.Digest
	if d.moved[now.Image] == image {
		return nil // another Workload has the same, and the entry is for both
	}
	d.moved[now.Image] = image
	fields = append(fields, "digest", d.want.Digest)
	line, err := p.append(fields)
	if err != nil {
		return err
	}
	d.edits = append(d.edits, fmt.Sprintf("%s:%d: an entry of images is added for %s", p.name, line, name))
	d.notes = append(d.notes, fmt.Sprintf("%s: its image is set at %s, which other overlays may use, and is pinned in this overlay from now on", called(o), now.Place))
	return nil
}

// built are the files as they were changed, and what comes of them.
func (d *draft) built() (*overlay.Set, map[string][]byte, error) {
	files := map[string][]byte{}
	for file, p := range d.pages {
		raw, err := p.bytes()
		if err != nil {
			return nil, nil, err
		}
		if string(raw) != string(p.raw) {
			files[file] = raw
		}
	}
	after, err := d.set.With(files)
	if err != nil {
		return nil, nil, fmt.Errorf("the overlay does not build with the change: %w", err)
	}
	return after, files, nil
}
