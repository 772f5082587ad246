package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WorkloadSpec is what a team asks for. What only v1beta1 can say of a Workload stands in
// the annotation sluice.dev/v1beta1-spec, which is not for editing.
// +kubebuilder:validation:XValidation:rule="(has(self.persistent) && self.persistent) == has(self.storageSize)",message="storageSize is required where persistent is true, and means nothing elsewhere"
// +kubebuilder:validation:XValidation:rule="(has(self.persistent) && self.persistent) == (has(oldSelf.persistent) && oldSelf.persistent)",message="persistent cannot change: a Deployment and a StatefulSet cannot be turned into each other; create a new Workload"
type WorkloadSpec struct {
	// Image of the container. A tag is resolved once per change of the spec; the digest is
	// what is verified and what runs.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`
	// Replicas to run.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Port the container listens on; with one, a Service publishes it. Of several ports
	// that v1beta1 names it is the one with the name http, or else the first.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
	// Persistent makes this a StatefulSet with one volume per replica, mounted at /data.
	// +kubebuilder:default=false
	// +optional
	Persistent bool `json:"persistent,omitempty"`
	// StorageSize of each volume. It can grow, where the StorageClass allows that.
	// +kubebuilder:validation:Pattern=`^[0-9]+(Mi|Gi|Ti)$`
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="quantity(self).isGreaterThan(quantity('0')) && quantity(self).isLessThan(quantity('8Ei'))",message="storageSize is above 0 and below 8Ei"
	// +kubebuilder:validation:XValidation:rule="!quantity(self).isLessThan(quantity(oldSelf))",message="storageSize cannot shrink, since no volume can: keep the size, or copy the data to a new Workload"
	// +optional
	StorageSize string `json:"storageSize,omitempty"`
}

// WorkloadStatus is what the operator saw. It is never read back as an input.
type WorkloadStatus struct {
	// ObservedGeneration is the generation this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase in one word, as in v1beta1.
	// +optional
	Phase string `json:"phase,omitempty"`
	// Conditions hold the detail.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Replicas that are available: availableReplicas of v1beta1.
	// +optional
	Replicas int32 `json:"replicas"`
	// Selector of the pods, for /scale.
	// +optional
	Selector string `json:"selector,omitempty"`
	// V1beta1 is what only v1beta1 says of the status.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	V1beta1 *runtime.RawExtension `json:"v1beta1,omitempty"`
}

// Workload is one application: an image, how often it runs, and whether it keeps data.
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="sluice.dev/v1alpha1 Workload is deprecated: use sluice.dev/v1beta1, see docs/upgrade.md"
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=wl,categories={all,sluice}
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')",message="name must be a DNS label of at most 52 characters that starts with a letter: it names a Service and a CronJob"
type Workload struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec is what the team asks for.
	Spec WorkloadSpec `json:"spec"`
	// Status is what the operator saw.
	// +optional
	Status WorkloadStatus `json:"status,omitempty"`
}

// WorkloadList is a list of Workloads.
// +kubebuilder:object:root=true
type WorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workload `json:"items"`
}
