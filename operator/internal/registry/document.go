package registry

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/strictjson"
)

// descriptor is one entry of a manifest or an index. It is our own and not that of
// go-containerregistry, which fails on a whole list when one digest in it is of a kind
// that it does not know: anybody who may push could then keep signatures from being read.
type descriptor struct {
	MediaType    string            `json:"mediaType"`
	ArtifactType string            `json:"artifactType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	Annotations  map[string]string `json:"annotations"`
	Platform     *platform         `json:"platform"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant"`
}

// cut is as much of it as String shows.
func (p *platform) cut() *platform {
	if p == nil {
		return nil
	}
	return &platform{OS: beginning(p.OS, platformText), Architecture: beginning(p.Architecture, platformText), Variant: beginning(p.Variant, platformText)}
}

// only is what is kept of a descriptor: what tells the content, and some of the annotations. One
// that is too long stays too long.
func (d descriptor) only(annotations ...string) descriptor {
	kept := descriptor{Digest: beginning(d.Digest, digestText), Size: d.Size}
	for _, name := range annotations {
		if value, ok := d.Annotations[name]; ok {
			if kept.Annotations == nil {
				kept.Annotations = map[string]string{}
			}
			kept.Annotations[name] = beginning(value, limits.SignatureAnnotationBytes)
		}
	}
	return kept
}

// only keeps that of each of a list.
func only(all []descriptor, annotations ...string) []descriptor {
	kept := make([]descriptor, 0, len(all))
	for _, d := range all {
		kept = append(kept, d.only(annotations...))
	}
	return kept
}

// beginning is a text up to a length, and one byte more that tells that it is longer.
func beginning(s string, length int) string {
	if len(s) <= length {
		return s
	}
	return strings.Clone(s[:length+1])
}

// String is os/architecture[/variant], safe to print.
func (p *platform) String() string {
	if p == nil {
		return ""
	}
	s := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return redact.Text(s, platformText)
}

// platformText cuts a platform in messages; linux/arm64/v8 has 14 bytes.
const platformText = 64

// digestText is longer than any digest that is valid.
const digestText = 128

// document is a manifest or an index; which of the two is for its fields to say.
type document struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	Config        json.RawMessage `json:"config"`
	Layers        descriptors     `json:"layers"`
	Manifests     descriptors     `json:"manifests"`
}

// descriptors are a list of limits.ManifestEntries at most: an entry that takes three bytes
// in a document takes a hundred in memory, and a list of MiB of them hundreds of MiB.
type descriptors []descriptor

// UnmarshalJSON implements json.Unmarshaler.
func (d *descriptors) UnmarshalJSON(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	switch start, err := dec.Token(); {
	case err != nil:
		return err
	case start == nil:
		return nil // as encoding/json takes null
	case start != json.Delim('['):
		return errors.New("it is no list")
	}
	*d = descriptors{}
	for dec.More() {
		if len(*d) == limits.ManifestEntries {
			return &limitError{name: "limits.ManifestEntries", text: fmt.Sprintf("it lists more than %d", limits.ManifestEntries)}
		}
		var one descriptor
		if err := dec.Decode(&one); err != nil {
			return err
		}
		*d = append(*d, one)
	}
	return nil
}

// parse reads a document, and refuses one that could be taken for a manifest by one
// reader and for an index by another.
func parse(body []byte) (*document, error) {
	var d document
	err := json.Unmarshal(body, &d)
	if over := new(limitError); errors.As(err, &over) {
		return nil, over
	}
	if err != nil || d.SchemaVersion != 2 {
		return nil, &contentError{text: "the answer is neither an image manifest nor an index"}
	}
	index := d.Manifests != nil || d.MediaType.IsIndex()
	image := d.Config != nil || d.Layers != nil || d.MediaType.IsImage()
	if index && image {
		return nil, &contentError{text: "the answer is an image manifest and an index in one"}
	}
	return &d, nil
}

func (d *document) isIndex() bool { return d.Manifests != nil || d.MediaType.IsIndex() }

// parseIndex reads an image index. Anything else is an error: a page that some proxy put
// in the way must not pass for an empty list.
func parseIndex(body []byte) ([]descriptor, error) {
	d, err := parse(body)
	if err != nil {
		return nil, err
	}
	if d.MediaType != "" && !d.MediaType.IsIndex() || d.Config != nil || d.Layers != nil {
		return nil, &contentError{text: "the answer is not an image index"}
	}
	return d.Manifests, nil
}

// parseLayers reads the layers of an image manifest.
func parseLayers(body []byte) ([]descriptor, error) {
	d, err := parse(body)
	if err != nil {
		return nil, err
	}
	if d.isIndex() {
		return nil, &contentError{text: "the answer is not an image manifest"}
	}
	return d.Layers, nil
}

const (
	referenceTypeAnnotation   = "vnd.docker.reference.type"
	referenceDigestAnnotation = "vnd.docker.reference.digest"
)

// parseChildren lists the images of an index, each once; nil if the document is no index.
//
// BuildKit puts its attestations into the index, as manifests for the platform
// unknown/unknown. They are left out, as nobody signs them. Can an image hide that way?
// A runtime picks the entry that fits the node's platform, and no node's is unknown; a
// Pod that names the entry by its digest is judged by that digest, for which the
// signature of this index counts nothing. So what is left out cannot be run by way of
// this index. All three marks have to be there, and the image that it is about: any
// other entry has to be signed, one without a platform too, as a runtime may pick that
// one. An index within the index is refused: its own signature would stand for images
// that were to be signed each.
func parseChildren(body []byte) ([]descriptor, error) {
	d, err := parse(body)
	if err != nil || !d.isIndex() {
		return nil, err
	}
	// Which images are in it must be the same to whoever pulls one.
	if err := strictjson.Check(body, strictjson.Everywhere); err != nil {
		return nil, &contentError{text: "the index can be read in two ways: " + err.Error()}
	}
	listed := map[string]bool{}
	for _, m := range d.Manifests {
		listed[m.Digest] = listed[m.Digest] || m.Platform == nil || *m.Platform != unknownPlatform
	}
	children := make([]descriptor, 0, len(d.Manifests))
	seen := map[string]bool{}
	for _, m := range d.Manifests {
		if !digests.Valid(m.Digest) {
			return nil, &contentError{text: "the index names an image by something other than a SHA-256"}
		}
		if m.MediaType == string(types.OCIImageIndex) || m.MediaType == string(types.DockerManifestList) {
			return nil, &contentError{text: "the index holds another index, whose images are not looked at: sign the index as a whole"}
		}
		if seen[m.Digest] || m.isBuildAttestation(listed) {
			continue
		}
		seen[m.Digest] = true
		children = append(children, m)
	}
	for i, m := range children {
		children[i] = m.only()
		children[i].Platform = m.Platform.cut()
	}
	return children, nil
}

// unknownPlatform is that of a build attestation.
var unknownPlatform = platform{OS: "unknown", Architecture: "unknown"}

// isBuildAttestation says whether an entry is one, of an index that lists these digests: true
// for one that is listed as an image too.
func (d descriptor) isBuildAttestation(listed map[string]bool) bool {
	about := d.Annotations[referenceDigestAnnotation]
	_, there := listed[about]
	return d.Platform != nil && *d.Platform == unknownPlatform && !listed[d.Digest] &&
		d.Annotations[referenceTypeAnnotation] == "attestation-manifest" && d.MediaType == string(types.OCIManifestSchema1) &&
		there && about != d.Digest
}

// payloadPeek is the predicate type of the statement that a DSSE envelope's payload is, "" where
// it is none. It is for sorting only: nothing is verified, and who verifies looks again.
//
// It and envelopePeek look while encoding/json walks by, and keep nothing: a bundle may have
// limits.AttestationBytes, of which each copy on the way to its statement takes as much again.
type payloadPeek string

// UnmarshalJSON implements json.Unmarshaler.
func (p *payloadPeek) UnmarshalJSON(raw []byte) error {
	if payload, err := payloadOf(raw); err == nil {
		*p = payloadPeek(gate.PredicateType(payload))
	}
	return nil
}

// payloadOf is what a text in JSON is in base64.
func payloadOf(raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != '"' || bytes.ContainsAny(raw, `\-_`) {
		var encoded string
		if err := json.Unmarshal(raw, &encoded); err != nil {
			return nil, err
		}
		return decodeBase64(encoded)
	}
	raw = bytes.TrimRight(raw[1:len(raw)-1], "=")
	payload := make([]byte, base64.RawStdEncoding.DecodedLen(len(raw)))
	n, err := base64.RawStdEncoding.Decode(payload, raw)
	return payload[:n], err
}

// envelopePeek is the predicate type of the statement in a DSSE envelope.
type envelopePeek string

// UnmarshalJSON implements json.Unmarshaler.
func (e *envelopePeek) UnmarshalJSON(raw []byte) error {
	*e = envelopePeek(envelopePredicate(raw))
	return nil
}

// envelopePredicate is the predicate type of the statement in an envelope's JSON. Keys are taken
// to the letter, unlike encoding/json does by default.
func envelopePredicate(raw []byte) string {
	var envelope map[string]payloadPeek
	if json.Unmarshal(raw, &envelope) != nil {
		return ""
	}
	return string(envelope["payload"])
}

// bundlePredicate is that for the envelope in a sigstore bundle, which by the rules of protobuf
// may spell its field in two ways.
func bundlePredicate(raw []byte) string {
	var bundle map[string]envelopePeek
	if json.Unmarshal(raw, &bundle) != nil {
		return ""
	}
	for _, field := range []string{"dsseEnvelope", "dsse_envelope"} {
		if predicate, ok := bundle[field]; ok {
			return string(predicate)
		}
	}
	return ""
}

// predicateIn is the predicate type of the statement in content of a format.
func predicateIn(format gate.SignatureFormat, raw []byte) string {
	switch {
	case format == gate.FormatCosignTag:
		return predicateSign
	case strictjson.Parts(raw) > limits.EnvelopeParts:
		return "" // nobody reads it
	case format == gate.FormatBundle:
		return bundlePredicate(raw)
	}
	return envelopePredicate(raw)
}

// looksLikeBundle says whether a media or artifact type is that of sigstore bundles, of
// any version.
func looksLikeBundle(mediaType string) bool { return strings.HasPrefix(mediaType, bundleTypePrefix) }
