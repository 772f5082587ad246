// Package gate decides. It turns facts that were gathered elsewhere (Input) into a
// Verdict, by a Chain of Checks. Nothing here does I/O, reads a clock or holds a
// client: the same input gives the same bytes in the pull request, at admission and on
// every reconcile.
package gate

import (
	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Mode says what a verdict does; the values are those of the Gate API.
type Mode string

// The modes.
const (
	Enforce Mode = "Enforce"
	Warn    Mode = "Warn"
	Audit   Mode = "Audit"
)

// Config is one Gate with everything it refers to read in: policy modules and keys.
type Config struct {
	Name        string
	Environment string
	Mode        Mode
	Policies    []PolicySet
	// Parameters by policy group, as decoded JSON.
	Parameters map[string]any
	Images     []ImageRule
	// DenyUnmatched denies images that no rule matches.
	DenyUnmatched bool
	// Promotion is the proof that images have to bring along; nil for none.
	Promotion *Promotion `json:",omitempty"`
}

// Promotion demands signed evidence that an image passed another environment.
type Promotion struct {
	// Environment that it has to have passed.
	Environment string
	// Within is how old the evidence may be, in seconds; 0 for any age.
	Within int64 `json:",omitempty"`
	// PolicyDigests that it may have been verified against; empty: any.
	PolicyDigests []string `json:",omitempty"`
	// Authorities that may sign for the environment.
	Authorities []Authority
	// Own authorities sign for the Gate's own environment: evidence by one of them that the
	// image ran there before lifts Within, and nothing else.
	Own []Authority `json:",omitempty"`
}

// PolicySet is the modules of one policy source.
type PolicySet struct {
	// Name in verdicts: the builtin group, namespace/name of the ConfigMap, or
	// registry/repository of the bundle.
	Name string
	// Modules by file name, Rego v1.
	Modules map[string]string
	// Unavailable says why the modules could not be read; the set then decides nothing
	// and the verdict is Error.
	Unavailable string `json:",omitempty"`
	// Doubts are what a bundle was accepted without; the verdict warns of each. They say
	// nothing of the modules, and are not in Digest.
	Doubts []Doubt `json:"-"`
	// Sum is what Digest returns, when it was worked out before by Summed; the modules
	// must not be changed after that.
	Sum string `json:"-"`
}

// Doubt is something that the signatures of a policy set lack, and what to do about it.
type Doubt struct{ Message, Remedy string }

// Digest identifies the set's content, as "sha256:<hex>". It hashes all modules unless
// the set is Summed.
func (p PolicySet) Digest() string {
	if p.Sum != "" {
		return p.Sum
	}
	return digest(p)
}

// Summed returns the set with its digest worked out, for a gatherer to call once per
// source: a decision then costs no hashing.
func (p PolicySet) Summed() PolicySet {
	p.Sum = digest(p)
	return p
}

// Digest identifies everything that the decision depends on apart from the object,
// as "sha256:<hex>": rules, policies, parameters and keys.
func (c Config) Digest() string { return digest(c.identity()) }

// identity is what Digest is of.
func (c Config) identity() any {
	// Policy sets count by their own digests: the builtin ones are worked out once per
	// process, and hashing all modules again took a third of a decision.
	sums := make([]string, 0, len(c.Policies))
	for _, p := range c.Policies {
		sums = append(sums, p.Name+" "+p.Digest())
	}
	c.Policies = nil
	return struct {
		Config   Config
		Policies []string
	}{c, sums}
}

func digest(v any) string {
	return digests.Of(canonical(v))
}

// Requirement says how many authorities have to have signed.
type Requirement struct {
	// None: allowed without looking.
	None bool `json:",omitempty"`
	// All of the authorities.
	All bool `json:",omitempty"`
	// Count of authorities, when neither None nor All; "any" is 1.
	Count int `json:",omitempty"`
}

// ImageRule is one entry of a Gate's images.
type ImageRule struct {
	// Match is a glob over registry/repository: * stands for any number of characters within
	// one path segment, ** for any number of segments, and *. in the host for one label.
	Match         string
	Authorities   []Authority
	Require       Requirement
	RequireDigest bool
	// ByChildren: of an image index, every image in it has to be signed, and not the index.
	ByChildren   bool              `json:",omitempty"`
	Attestations []AttestationRule `json:",omitempty"`
}

// AttestationRule demands a statement about the image.
type AttestationRule struct {
	// PredicateType that the statement has to have, to the letter.
	PredicateType string
	// Authorities by name, any of which may have signed it; empty: any of the rule's.
	Authorities []string `json:",omitempty"`
	// Policy is a Rego module over the statement ("" if none): what its deny says, denies.
	Policy string `json:",omitempty"`
}

// Keyless is an identity that a certificate authority such as Fulcio vouches for.
// Exactly one of each exact value and pattern is set. Patterns are RE2 and have to match
// in full.
type Keyless struct {
	Issuer        string `json:",omitempty"`
	IssuerRegExp  string `json:",omitempty"`
	Subject       string `json:",omitempty"`
	SubjectRegExp string `json:",omitempty"`
	// TrustedRoot is trusted_root.json.
	TrustedRoot []byte
	// IgnoreTransparencyLog and IgnoreCertificateLog accept signatures without an entry
	// in logs that the trusted root lists. The verdict then warns.
	IgnoreTransparencyLog bool `json:",omitempty"`
	IgnoreCertificateLog  bool `json:",omitempty"`
}

// Authority is someone whose signature counts: a key or an identity.
type Authority struct {
	Name string
	// PublicKeyPEM is a PKIX public key.
	PublicKeyPEM string `json:",omitempty"`
	// Keyless identity, in place of a key.
	Keyless *Keyless `json:",omitempty"`
	// Source names what key or trusted root are fetched from, where that is outside the
	// cluster: it is done when an image needs it, after the Gate's digest was taken.
	Source string `json:",omitempty"`
	// Unavailable says why the key could not be read; where the authority is needed the
	// verdict is Error.
	Unavailable string `json:",omitempty"`
}

// ObjectRef names an object.
type ObjectRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
}

// String is Kind/namespace/name, or Kind/name for a cluster-scoped object.
func (r ObjectRef) String() string {
	if r.Namespace == "" {
		return r.Kind + "/" + r.Name
	}
	return r.Kind + "/" + r.Namespace + "/" + r.Name
}

// Namespace is the namespace of the object that is judged.
type Namespace struct {
	Name   string
	Labels map[string]string
}

// Location is one place that names an image.
type Location struct {
	// Object that names it, as Kind/namespace/name.
	Object string
	// Path of the field, such as spec.template.spec.containers[0].image.
	Path string
}

// Image is one image and what the registry holds for it.
type Image struct {
	// Ref as written.
	Ref string
	// Repository is registry/repository in full, such as docker.io/library/nginx; empty
	// when Ref does not parse.
	Repository string
	// Tag as written, empty if only a digest is.
	Tag string
	// Pinned says that Ref itself names a digest.
	Pinned bool
	// Locations that name this image, in document order.
	Locations []Location
	// Digest that Ref stands for, "sha256:<hex>"; empty when it was not resolved.
	Digest string
	// TagDigest is what Tag stands for in the registry, where Ref names another digest beside
	// it; empty where they agree or that is not known. Nothing is pulled by it.
	TagDigest string
	// Signatures that the registry holds for Digest, not yet verified.
	Signatures []Signature
	// Attestations that the registry holds for Digest, not yet verified.
	Attestations []Signature
	// Children of an image index with their signatures, where a rule asks for those; nil
	// when the image is no index. An index without images has none, and is not nil.
	Children []ChildImage
	// Invalid says why Ref is not an image reference.
	Invalid string
	// Unavailable says why digest or signatures could not be read, and Remedy what to do
	// about it where that is known.
	Unavailable string
	Remedy      string
}

// ChildImage is one image of an index.
type ChildImage struct {
	// Digest of the child, "sha256:<hex>".
	Digest string
	// Platform as os/architecture[/variant], for messages.
	Platform   string
	Signatures []Signature
}

// Want is what a decision over an image takes of the registry, beside its digest.
type Want struct {
	// Signatures of the image itself.
	Signatures bool
	// Predicates are the types of the attestations that are asked for, sorted.
	Predicates []string
	// Children of an image index, with their signatures.
	Children bool
}

// SignatureFormat is how a signature is stored.
type SignatureFormat string

// The formats.
const (
	// FormatCosignTag is a layer of the image tagged sha256-<hex>.sig: a "simple signing"
	// payload with its signature in an annotation.
	FormatCosignTag SignatureFormat = "cosign-tag"
	// FormatBundle is a sigstore bundle (v0.3) in an OCI 1.1 referrer.
	FormatBundle SignatureFormat = "bundle"
	// FormatAttestationTag is a layer of the image tagged sha256-<hex>.att: a DSSE envelope.
	FormatAttestationTag SignatureFormat = "attestation-tag"
)

// Signature is one signature as the registry holds it.
type Signature struct {
	Format SignatureFormat
	// Payload that was signed (FormatCosignTag), or the DSSE envelope's JSON
	// (FormatAttestationTag).
	Payload []byte
	// Base64 signature over Payload (FormatCosignTag).
	Base64 string
	// Certificate in PEM, the Rekor entry with its promise (dev.sigstore.cosign/bundle) and the
	// timestamp (dev.sigstore.cosign/rfc3161timestamp), of keyless signatures in the two tag
	// formats. A chain that is stored beside them counts for nothing.
	Certificate, RekorBundle, Timestamp []byte
	// Bundle is the bundle's JSON (FormatBundle).
	Bundle []byte
	// Unread is set where the registry holds something here that was not read, for a reason
	// that lies in it and not in the registry; there is no content then.
	Unread *Unread
}

// Unread is what may be evidence and was not read. It is no absence: it may be what a
// rule asks for.
type Unread struct {
	// Reason names it by its digest, and the limit that it is over.
	Reason string
	// Predicate is the type that it is labelled with, by whoever stored it; "" for none.
	Predicate string
}

// Input is all a decision needs. It is not changed after it was gathered.
type Input struct {
	Gate Config
	// PolicyDigest is Gate.Digest(), worked out once per Gate and not per object.
	PolicyDigest string
	Object       ObjectRef
	Namespace    Namespace
	// Submitted is the object as submitted, without status and server-set metadata.
	Submitted map[string]any
	// Children that the Workload renders to, images as written.
	Children []map[string]any
	// Images of the children.
	Images []Image
	// Exemptions that there are, and Now, in seconds since 1970, which decides whether one
	// has expired, and how old promotion evidence is, and nothing else.
	Exemptions []Exemption
	Now        int64
	// Secrets of the object, which no finding may show.
	Secrets *redact.Secrets
	// Refused are reasons to deny that show before any check runs, such as patches that
	// do not apply.
	Refused []Finding
	// Failures are facts that could not be gathered.
	Failures []Finding
}
