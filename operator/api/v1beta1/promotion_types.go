package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RequirePromotionFrom demands signed evidence that an image passed another environment.
type RequirePromotionFrom struct {
	// Environment that the image has to have passed, as verifier of the evidence.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`
	Environment string `json:"environment"`
	// Within is how old the evidence may be, from 1m to 87600h; without it, any age.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="within is from 1m to 87600h"
	// +optional
	Within *metav1.Duration `json:"within,omitempty"`
	// PolicyDigests that the environment may have verified against; without any, all. Taking
	// one out revokes the evidence that was given under it.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^sha256:[0-9a-f]{64}$`
	// +kubebuilder:validation:items:MaxLength=71
	// +listType=set
	// +optional
	PolicyDigests []string `json:"policyDigests,omitempty"`
	// Authorities that may sign for that environment, and for no other. One of them is
	// enough.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Authorities []Authority `json:"authorities"`
}

// PrivateKey is a key that evidence is signed with.
// +kubebuilder:validation:XValidation:rule="has(self.secret) != has(self.kms)",message="set exactly one of secret and kms"
type PrivateKey struct {
	// Secret that holds the key in PEM: PKCS #8, or as cosign stores it, with the password
	// under the key cosign.password of the same Secret.
	// +optional
	Secret *SecretKeyRef `json:"secret,omitempty"`
	// KMS is the URI of a key in a key management service, such as hashivault://prod, that
	// signs there.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+://.+$`
	// +kubebuilder:validation:MaxLength=512
	// +optional
	KMS string `json:"kms,omitempty"`
}

// Attest is what the environment signs of the images that do well in it.
type Attest struct {
	// Key that signs for this environment, and for no other.
	Key PrivateKey `json:"key"`
	// Soak is how long a Workload has to have been Ready, and allowed, without a break,
	// before its images are attested. From 0s to 720h.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="soak is from 0s to 720h"
	// +optional
	Soak *metav1.Duration `json:"soak,omitempty"`
	// RegistrySecret of type kubernetes.io/dockerconfigjson, to store evidence beside the
	// images with; without one, what they are pulled with.
	// +optional
	RegistrySecret *NamespacedName `json:"registrySecret,omitempty"`
	// Authorities whose evidence of this very environment is believed: an image that ran
	// here before may come back after its evidence of the environment before this one is
	// older than requirePromotionFrom.within. The public half of the key above belongs here.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Authorities []Authority `json:"authorities,omitempty"`
}

// PromotionWindowKind says what a window does while it is open.
// +kubebuilder:validation:Enum=Allow;Deny
type PromotionWindowKind string

// The kinds of windows.
const (
	// PromotionWindowAllow: where there are such windows, promotions take place in them only.
	PromotionWindowAllow PromotionWindowKind = "Allow"
	// PromotionWindowDeny: no promotion while it is open, whatever else is.
	PromotionWindowDeny PromotionWindowKind = "Deny"
)

// PromotionWindow is a time that comes back, in which promotions into the environment take
// place or do not.
type PromotionWindow struct {
	// Kind of the window.
	Kind PromotionWindowKind `json:"kind"`
	// Schedule in five cron fields of when it opens, such as 0 18 * * FRI.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule"`
	// Duration it stays open, from 1m to 8760h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('8760h')",message="duration is from 1m to 8760h"
	Duration metav1.Duration `json:"duration"`
	// TimeZone of the schedule, as in the IANA database, such as Europe/Berlin; by default UTC.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// Reason that whoever has to wait is told.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Reason string `json:"reason,omitempty"`
}
