package v1beta1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// GateMode says what a verdict does.
// +kubebuilder:validation:Enum=Enforce;Warn;Audit
type GateMode string

// The modes of a Gate.
const (
	// GateModeEnforce blocks what is denied and what could not be decided.
	GateModeEnforce GateMode = "Enforce"
	// GateModeWarn lets it through with a warning to the user.
	GateModeWarn GateMode = "Warn"
	// GateModeAudit lets it through and records the verdict.
	GateModeAudit GateMode = "Audit"
)

// UnmatchedImages says what happens to an image that no entry of spec.images matches.
// +kubebuilder:validation:Enum=Deny;Allow
type UnmatchedImages string

// What happens to unmatched images.
const (
	UnmatchedImagesDeny  UnmatchedImages = "Deny"
	UnmatchedImagesAllow UnmatchedImages = "Allow"
)

// JudgedKind is a kind of object that a Gate judges.
// +kubebuilder:validation:Enum=Workload;Pod;Deployment;StatefulSet;DaemonSet;ReplicaSet;ReplicationController;Job;CronJob
type JudgedKind string

// GateMatch selects the objects a Gate judges. Everything that is set has to match; an
// empty selector matches everything.
type GateMatch struct {
	// Kinds that are judged. Workloads are always asked for a Gate; objects of the other
	// kinds are judged only by Gates that name their kind.
	// +kubebuilder:default={Workload}
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +optional
	Kinds []JudgedKind `json:"kinds,omitempty"`
	// NamespaceSelector over the labels of the Workload's namespace.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ObjectSelector over the labels of the Workload.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
}

// NamespacedName names an object in a namespace.
type NamespacedName struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Namespace of the object.
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
}

// PolicySource is one set of Rego policies.
// +kubebuilder:validation:XValidation:rule="[has(self.builtin), has(self.configMap), has(self.oci)].filter(x, x).size() == 1",message="set exactly one of builtin, configMap and oci"
type PolicySource struct {
	// Builtin names a group of the library that ships with Sluice.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Builtin string `json:"builtin,omitempty"`
	// ConfigMap whose keys ending in .rego are the modules.
	// +optional
	ConfigMap *NamespacedName `json:"configMap,omitempty"`
	// OCI is a bundle of policies in a registry, whose signature is verified before anything
	// in it is read.
	// +optional
	OCI *PolicyBundle `json:"oci,omitempty"`
}

// PolicyBundle is Rego policies in a registry, as sluice policy push, conftest push, opa build
// and flux push write them.
type PolicyBundle struct {
	// Ref is repository@sha256:<digest>, with the registry's host. It takes no tag: a tag that
	// is moved would change the policies without a change in Git.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^@]+/[^@/:]+@sha256:[0-9a-f]{64}$')",message="ref is registry/repository@sha256:<64 hexadecimal digits>, without a tag, which could be moved: sluice policy push prints it, and crane digest REPOSITORY:TAG the digest of what is there already"
	Ref string `json:"ref"`
	// Authorities any of which has to have signed the bundle.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Authorities []Authority `json:"authorities"`
	// RegistrySecret of type kubernetes.io/dockerconfigjson, to read the bundle with, in the
	// operator's namespace; without it the operator's own credentials.
	// +optional
	RegistrySecret *NamespacedName `json:"registrySecret,omitempty"`
}

// SecretKeyRef names one key of a Secret.
type SecretKeyRef struct {
	NamespacedName `json:",inline"`
	// Key inside the Secret.
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
}

// ConfigMapKeyRef names one key of a ConfigMap.
type ConfigMapKeyRef struct {
	NamespacedName `json:",inline"`
	// Key inside the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
}

// PublicKey is a key that signatures are verified with.
// +kubebuilder:validation:XValidation:rule="[has(self.inline), has(self.secret), has(self.kms)].filter(x, x).size() == 1",message="set exactly one of inline, secret and kms"
type PublicKey struct {
	// Inline PEM (PKIX).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Inline string `json:"inline,omitempty"`
	// Secret that holds the PEM (PKIX).
	// +optional
	Secret *SecretKeyRef `json:"secret,omitempty"`
	// KMS is the URI of a key in a key management service, such as hashivault://release.
	// Its public half is fetched; signatures are verified here.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+://.+$`
	// +kubebuilder:validation:MaxLength=512
	// +optional
	KMS string `json:"kms,omitempty"`
}

// TrustedRoot is a trusted_root.json: the certificate authorities, transparency logs and
// timestamp authorities that are believed.
// +kubebuilder:validation:XValidation:rule="[has(self.inline), has(self.secret), has(self.configMap), has(self.file)].filter(x, x).size() == 1",message="set exactly one of configMap, secret, file and inline"
type TrustedRoot struct {
	// ConfigMap that holds it.
	// +optional
	ConfigMap *ConfigMapKeyRef `json:"configMap,omitempty"`
	// Secret that holds it.
	// +optional
	Secret *SecretKeyRef `json:"secret,omitempty"`
	// File on the machine that judges, mounted into the operator's pod.
	// +kubebuilder:validation:Pattern=`^/.+$`
	// +kubebuilder:validation:MaxLength=512
	// +optional
	File string `json:"file,omitempty"`
	// Inline JSON.
	// +kubebuilder:validation:MaxLength=131072
	// +optional
	Inline string `json:"inline,omitempty"`
}

// Keyless is an identity that a certificate authority such as Fulcio vouched for when
// the image was signed.
// +kubebuilder:validation:XValidation:rule="has(self.issuer) != has(self.issuerRegExp)",message="set exactly one of issuer and issuerRegExp: without an issuer anyone may claim any subject"
// +kubebuilder:validation:XValidation:rule="has(self.subject) != has(self.subjectRegExp)",message="set exactly one of subject and subjectRegExp: without a subject every user of the issuer could sign"
type Keyless struct {
	// Issuer of the identity token, exactly.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Issuer string `json:"issuer,omitempty"`
	// IssuerRegExp in RE2 has to match the issuer in full.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	IssuerRegExp string `json:"issuerRegExp,omitempty"`
	// Subject of the certificate, exactly: a mail address or a URI.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Subject string `json:"subject,omitempty"`
	// SubjectRegExp in RE2 has to match the subject in full, and be anchored.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	SubjectRegExp string `json:"subjectRegExp,omitempty"`
	// TrustedRoot to verify against. Without one the root of the public Sigstore is fetched
	// when the first such signature is verified, and kept fresh.
	// +optional
	TrustedRoot *TrustedRoot `json:"trustedRoot,omitempty"`
	// IgnoreTransparencyLog accepts signatures without an entry in a transparency log that
	// the trusted root lists. The verdict warns of it.
	// +optional
	IgnoreTransparencyLog bool `json:"ignoreTransparencyLog,omitempty"`
	// IgnoreCertificateLog accepts certificates without a timestamp of a certificate log
	// that the trusted root lists. The verdict warns of it.
	// +optional
	IgnoreCertificateLog bool `json:"ignoreCertificateLog,omitempty"`
}

// Authority is someone whose signature counts.
// +kubebuilder:validation:XValidation:rule="has(self.key) != has(self.keyless)",message="set exactly one of key and keyless"
type Authority struct {
	// Name in verdicts and messages; derived from its place in the list when empty.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Name string `json:"name,omitempty"`
	// Key of the authority.
	// +optional
	Key *PublicKey `json:"key,omitempty"`
	// Keyless identity of the authority.
	// +optional
	Keyless *Keyless `json:"keyless,omitempty"`
}

// SignedBy says what of an image index has to be signed.
// +kubebuilder:validation:Enum=index;children
type SignedBy string

// What of an index has to be signed.
const (
	// SignedByIndex: the index as a whole; that covers its children.
	SignedByIndex SignedBy = "index"
	// SignedByChildren: each image of the index.
	SignedByChildren SignedBy = "children"
)

// AttestationRule demands a signed statement about the image.
type AttestationRule struct {
	// PredicateType that the statement has to have, to the letter, such as
	// https://slsa.dev/provenance/v1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	PredicateType string `json:"predicateType"`
	// Authorities of this rule, by name, any of which may have signed it; empty: any of
	// the rule's authorities.
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	// +optional
	Authorities []string `json:"authorities,omitempty"`
	// Policy is a Rego module over the statement, which is its input: what its deny says,
	// denies the statement.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Policy string `json:"policy,omitempty"`
}

// ImageRule says who has to have signed the images that it matches. The first rule
// that matches an image decides.
// +kubebuilder:validation:XValidation:rule="(has(self.authorities) && size(self.authorities) > 0) || (has(self.require) && self.require == 'none' && !has(self.attestations))",message="authorities is required unless require is none: an image rule without a key or identity would accept anyone's signature"
// +kubebuilder:validation:XValidation:rule="!has(self.require) || type(self.require) != int || self.require <= size(self.authorities)",message="require cannot exceed the number of authorities"
type ImageRule struct {
	// Match is a glob over registry/repository: * stays within a path segment, **
	// crosses them. The registry host has to be named.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Match string `json:"match"`
	// Authorities whose signatures count.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Authorities []Authority `json:"authorities,omitempty"`
	// Require any of the authorities, which is the default, or all, a count of them, or none:
	// allowed without any call to the registry.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self in ['any', 'all', 'none']",message="require is any, all, none or a count of at least 1"
	// +optional
	Require *intstr.IntOrString `json:"require,omitempty"`
	// SignedBy says what of an image index has to be signed; by default the index.
	// +optional
	SignedBy SignedBy `json:"signedBy,omitempty"`
	// Attestations that are demanded besides the signatures, or alone where require is none.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Attestations []AttestationRule `json:"attestations,omitempty"`
	// RequireDigest denies an image that is named by tag alone.
	// +optional
	RequireDigest bool `json:"requireDigest,omitempty"`
}

// ImagePath names the images of one kind that is not built in. The webhook configuration
// has to ask about that kind too.
type ImagePath struct {
	// Group of the kind, such as runners.example.com.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// Kind whose objects are judged.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Paths of the fields, with [*] behind a list, such as spec.runners[*].image.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=set
	Paths []string `json:"paths"`
}

// OnFailure says what happens to what runs when a later look at it ends in a denial. What
// could not be decided has no effect on it.
// +kubebuilder:validation:Enum=Report;Freeze;ScaleToZero
type OnFailure string

// What happens to a Workload that runs and is denied.
const (
	// OnFailureReport: it is Blocked, its pods run on, and nobody touches its children.
	OnFailureReport OnFailure = "Report"
	// OnFailureFreeze: as Report, and what others change in its children is put back.
	OnFailureFreeze OnFailure = "Freeze"
	// OnFailureScaleToZero: as Report, and it has no pods until it is allowed again.
	OnFailureScaleToZero OnFailure = "ScaleToZero"
)

// Reverify is how what runs is looked at again.
type Reverify struct {
	// Interval between two looks at a Workload at rest. From 1m to 24h. The shortest of the
	// Gates that match counts.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="interval is from 1m to 24h"
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`
	// OnFailure is what happens to a Workload that this Gate allowed and now denies. The
	// strictest of the Gates that deny counts.
	// +kubebuilder:default=Report
	// +optional
	OnFailure OnFailure `json:"onFailure,omitempty"`
}

// GateSpec is what an environment demands.
// +kubebuilder:validation:XValidation:rule="!has(self.requirePromotionFrom) || self.requirePromotionFrom.environment != self.environment",message="requirePromotionFrom names the environment that this Gate guards: nothing could ever be promoted into it"
type GateSpec struct {
	// Environment this Gate guards, such as dev or prod; policies see it.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`
	Environment string `json:"environment"`
	// Mode of the Gate.
	// +kubebuilder:default=Enforce
	// +optional
	Mode GateMode `json:"mode,omitempty"`
	// Match selects the Workloads.
	// +optional
	Match GateMatch `json:"match,omitempty"`
	// Policies to evaluate.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Policies []PolicySource `json:"policies,omitempty"`
	// Parameters by policy group, given to the policies as input.parameters.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Parameters map[string]apiextensionsv1.JSON `json:"parameters,omitempty"`
	// Images and who has to have signed them.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Images []ImageRule `json:"images,omitempty"`
	// ImagePaths names images in objects of other kinds, which are then judged too.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	ImagePaths []ImagePath `json:"imagePaths,omitempty"`
	// UnmatchedImages says what happens to images that no rule matches.
	// +kubebuilder:default=Deny
	// +optional
	UnmatchedImages UnmatchedImages `json:"unmatchedImages,omitempty"`
	// RequirePromotionFrom is the environment that images have to bring proof of. Images that
	// a rule allows with require none, and without attestations, need none.
	// +optional
	RequirePromotionFrom *RequirePromotionFrom `json:"requirePromotionFrom,omitempty"`
	// Attest is what this environment signs of images whose Workloads do well in it; without
	// it nothing.
	// +optional
	Attest *Attest `json:"attest,omitempty"`
	// PromotionWindows are when sluice promote takes images into this environment; without
	// any, always. What is decided at admission does not depend on them.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	PromotionWindows []PromotionWindow `json:"promotionWindows,omitempty"`
	// Reverify is how Workloads that run are looked at again; without it every 10m, and a
	// denial is only reported.
	// +optional
	Reverify *Reverify `json:"reverify,omitempty"`
}

// Gate is the set of rules that guards one environment.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=gt,categories={sluice}
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Unmatched",type=string,JSONPath=`.spec.unmatchedImages`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.requirePromotionFrom.environment`
// +kubebuilder:printcolumn:name="Reverify",type=string,JSONPath=`.spec.reverify.onFailure`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Gate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec is what the environment demands.
	Spec GateSpec `json:"spec"`
}

// GateList is a list of Gates.
// +kubebuilder:object:root=true
type GateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gate `json:"items"`
}
