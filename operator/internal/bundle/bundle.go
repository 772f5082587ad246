// Package bundle reads and writes policies as registries hold them: an OCI image manifest
// whose layers are Rego files, as conftest pushes them, or archives, as OPA and Flux do. It is
// pure, and verifies no signature: whoever has bytes that were not verified must not read them
// with it.
package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/strictjson"
)

// Media types of layers and configs.
const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	// regoType and dataType are one file each, configType stands for both: conftest's.
	regoType   = "application/vnd.cncf.openpolicyagent.policy.layer.v1+rego"
	dataType   = "application/vnd.cncf.openpolicyagent.data.layer.v1+json"
	configType = "application/vnd.cncf.openpolicyagent.config.v1+json"

	titleAnnotation = "org.opencontainers.image.title"
)

// archiveTypes are gzip'd tars, of whoever pushes the archives of opa build, and of Flux.
var archiveTypes = []string{
	"application/vnd.oci.image.layer.v1.tar+gzip",
	"application/vnd.cncf.openpolicyagent.layer.v1.tar+gzip",
	"application/vnd.cncf.flux.content.v1.tar+gzip",
}

// Error says what is wrong with a bundle, for as long as it has the digest that it has, and
// what to do about it.
type Error struct{ What, Remedy string }

// Error is one line.
func (e *Error) Error() string { return e.What + ": " + e.Remedy }

func wrong(remedy, format string, args ...any) error {
	return &Error{What: fmt.Sprintf(format, args...), Remedy: remedy}
}

const (
	pushAgain = "push it with sluice policy push, conftest push, or as an archive of opa build"
	smaller   = "split it into several, one for each entry of spec.policies"
)

// Layer is one layer as a manifest describes it.
type Layer struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Content is a bundle with the bytes of its layers, in the manifest's order. Both have been
// held to their digests.
type Content struct {
	Manifest []byte
	Layers   [][]byte
}

// document has the fields of image manifests, and those that tell an index.
type document struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     string          `json:"mediaType"`
	Config        *Layer          `json:"config"`
	Layers        []Layer         `json:"layers"`
	Manifests     json.RawMessage `json:"manifests,omitempty"`
}

// Layers reads a manifest, and says what is to be fetched: at most limits.BundleLayers layers,
// of limits.BundleBytes together. Errors are of type *Error.
func Layers(manifest []byte) ([]Layer, error) {
	if len(manifest) > limits.ManifestBytes {
		return nil, wrong(smaller, "its manifest is larger than %d bytes (limits.ManifestBytes)", limits.ManifestBytes)
	}
	var d document
	err := strictjson.Check(manifest, strictjson.Everywhere)
	if err == nil {
		err = json.Unmarshal(manifest, &d)
	}
	switch {
	case err != nil:
		return nil, wrong(pushAgain, "its manifest cannot be read: %.200s", err)
	case d.Manifests != nil || d.MediaType == "application/vnd.oci.image.index.v1+json" || d.MediaType == "application/vnd.docker.distribution.manifest.list.v2+json":
		return nil, wrong("name the digest of one manifest in it, and sign that", "it is an index of several manifests, and not a bundle")
	case d.SchemaVersion != 2 || d.MediaType != "" && d.MediaType != manifestType || d.Config == nil:
		return nil, wrong(pushAgain, "its manifest is not an OCI image manifest, but %.100q", d.MediaType)
	case len(d.Layers) == 0:
		return nil, wrong(pushAgain, "it has no layers")
	case len(d.Layers) > limits.BundleLayers:
		return nil, wrong("push an archive of opa build, which is one layer, or split it", "it has %d layers, more than %d (limits.BundleLayers)", len(d.Layers), limits.BundleLayers)
	}
	return d.Layers, checkLayers(d.Layers)
}

func checkLayers(all []Layer) error {
	var sum int64
	for i, l := range all {
		switch {
		case l.MediaType != regoType && l.MediaType != dataType && !slices.Contains(archiveTypes, l.MediaType):
			return wrong(pushAgain, "layer %d is of media type %.100q, which Sluice does not read", i, l.MediaType)
		case !digests.Valid(l.Digest) || l.Size < 0:
			return wrong(pushAgain, "layer %d is described by something other than a SHA-256 and a size", i)
		case l.Size > limits.BundleBytes-sum:
			return wrong(smaller, "its layers have more than %d bytes (limits.BundleBytes)", limits.BundleBytes)
		}
		sum += l.Size
	}
	return nil
}

// Modules are the Rego modules of the bundle by their names in it, one at least and of
// limits.PolicyBytes at most. What would change a decision and is no module is an error, and
// not passed over. Errors are of type *Error.
func (c Content) Modules() (map[string]string, error) {
	layers, err := Layers(c.Manifest)
	if err != nil {
		return nil, err
	}
	if len(layers) != len(c.Layers) {
		return nil, wrong(pushAgain, "its manifest has %d layers, and %d were read", len(layers), len(c.Layers))
	}
	files, unpacked := NewFiles(), &unpacking{bytes: limits.BundleUnpackedBytes, files: limits.BundleFiles}
	for i, l := range layers {
		if slices.Contains(archiveTypes, l.MediaType) {
			err = unpacked.archive(c.Layers[i], files)
		} else {
			err = single(l, c.Layers[i], files)
		}
		if err != nil {
			return nil, inLayer(i, err)
		}
	}
	return files.Modules()
}

func single(l Layer, content []byte, into *Files) error {
	name := l.Annotations[titleAnnotation]
	if name == "" {
		return wrong(pushAgain, "it has no name in the annotation %s", titleAnnotation)
	}
	if l.MediaType == dataType {
		return into.data(name, content)
	}
	if !isRego(name) {
		return wrong(pushAgain, "%.100q is pushed as Rego, and does not end in .rego", name)
	}
	return into.Add(name, content)
}

func inLayer(i int, err error) error {
	var known *Error
	if !errors.As(err, &known) {
		return err
	}
	return &Error{What: fmt.Sprintf("layer %d: %s", i, known.What), Remedy: known.Remedy}
}

// Packed is a bundle to be pushed. Bytes depend on nothing but the modules.
type Packed struct {
	Manifest []byte
	// Blobs are the config, and then the layers.
	Blobs []Blob
}

// Blob is the content that a descriptor stands for.
type Blob struct {
	MediaType string
	Content   []byte
}

// Pack makes a bundle of modules by name, each a layer as conftest has it. What the gate would
// refuse is refused; errors are of type *Error.
func Pack(modules map[string]string) (*Packed, error) {
	out := &Packed{Blobs: []Blob{{configType, []byte("{}")}}}
	config := describe(out.Blobs[0])
	d := document{SchemaVersion: 2, MediaType: manifestType, Config: &config}
	for _, name := range sortedNames(modules) {
		blob := Blob{regoType, []byte(modules[name])}
		l := describe(blob)
		l.Annotations = map[string]string{titleAnnotation: name}
		d.Layers, out.Blobs = append(d.Layers, l), append(out.Blobs, blob)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(d); err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	out.Manifest = bytes.TrimSuffix(text.Bytes(), []byte("\n"))
	// Read as the gate will.
	if _, err := out.Content().Modules(); err != nil {
		return nil, err
	}
	return out, nil
}

// Content is the bundle as it is read.
func (p *Packed) Content() Content {
	c := Content{Manifest: p.Manifest}
	for _, b := range p.Blobs[1:] {
		c.Layers = append(c.Layers, b.Content)
	}
	return c
}

// Digest of the manifest, "sha256:<hex>".
func (p *Packed) Digest() string { return digests.Of(p.Manifest) }
