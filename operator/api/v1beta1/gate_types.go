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

// GateMatch selects the Workloads a Gate judges. Both selectors have to match; an
// empty selector matches everything.
type GateMatch struct {
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
// +kubebuilder:validation:XValidation:rule="has(self.builtin) != has(self.configMap)",message="set exactly one of builtin and configMap"
type PolicySource struct {
	// Builtin names a group of the library that ships with Sluice.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Builtin string `json:"builtin,omitempty"`
	// ConfigMap whose keys ending in .rego are the modules.
	// +optional
	ConfigMap *NamespacedName `json:"configMap,omitempty"`
}

// SecretKeyRef names one key of a Secret.
type SecretKeyRef struct {
	NamespacedName `json:",inline"`
	// Key inside the Secret.
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
}

// PublicKey is a key that signatures are verified with, in PEM (PKIX).
// +kubebuilder:validation:XValidation:rule="has(self.inline) != has(self.secret)",message="set exactly one of inline and secret"
type PublicKey struct {
	// Inline PEM.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Inline string `json:"inline,omitempty"`
	// Secret that holds the PEM.
	// +optional
	Secret *SecretKeyRef `json:"secret,omitempty"`
}

// Authority is someone whose signature counts.
type Authority struct {
	// Name in verdicts and messages; derived from its place in the list when empty.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Name string `json:"name,omitempty"`
	// Key of the authority.
	Key PublicKey `json:"key"`
}

// ImageRule says who has to have signed the images that it matches. The first rule
// that matches an image decides.
// +kubebuilder:validation:XValidation:rule="(has(self.authorities) && size(self.authorities) > 0) || (has(self.require) && self.require == 'none')",message="authorities is required unless require is none: an image rule without a key or identity would accept anyone's signature"
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
	// Require any or all of the authorities, a count of them, or none: allowed without
	// any call to the registry.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self in ['any', 'all', 'none']",message="require is any, all, none or a count of at least 1"
	// +kubebuilder:default=any
	// +optional
	Require *intstr.IntOrString `json:"require,omitempty"`
	// RequireDigest denies an image that is named by tag alone.
	// +optional
	RequireDigest bool `json:"requireDigest,omitempty"`
}

// GateSpec is what an environment demands.
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
	// UnmatchedImages says what happens to images that no rule matches.
	// +kubebuilder:default=Deny
	// +optional
	UnmatchedImages UnmatchedImages `json:"unmatchedImages,omitempty"`
}

// Gate is the set of rules that guards one environment.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories={sluice}
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Unmatched",type=string,JSONPath=`.spec.unmatchedImages`
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
