package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ExemptedObject names one object that Gates judge, or several of one name's pattern.
type ExemptedObject struct {
	// Kind of the object that is judged, such as Workload; not that of its children.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!(self in ['Gate', 'Exemption'])",message="Gates and Exemptions cannot be exempted"
	Kind string `json:"kind"`
	// Namespace of the object.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// Name of the object. A * stands for any number of characters, for pods whose names are
	// made up; it cannot stand alone.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9*.-]*[a-z0-9][a-z0-9*.-]*$`
	Name string `json:"name"`
}

// ExemptionSpec says what is let through although a rule says no, why and until when. What
// it covers has to be of one of the policies, and of one of the objects and about one of
// the images where these are given.
// +kubebuilder:validation:XValidation:rule="(has(self.objects) && size(self.objects) > 0) || (has(self.images) && size(self.images) > 0)",message="objects or images is required: an exemption is for something"
type ExemptionSpec struct {
	// Reason that everyone is shown who is told of the exemption.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`\S`
	Reason string `json:"reason"`
	// Expires is when the exemption ends, as RFC 3339 has it. No event is needed for that.
	// +kubebuilder:validation:Format=date-time
	Expires metav1.Time `json:"expires"`
	// Gates by name.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	// +listType=set
	Gates []string `json:"gates"`
	// Policies by the names that findings have, such as signature or
	// reliability/min-replicas. There is no wildcard.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=768
	// +kubebuilder:validation:items:Pattern=`^[^*\s]+$`
	// +listType=set
	Policies []string `json:"policies"`
	// Objects that are judged.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Objects []ExemptedObject `json:"objects,omitempty"`
	// Images as registry/repository, with * within a path segment and ** across them, and
	// @sha256:<digest> or @sha256:* behind it where the digest counts. A finding that is
	// about no image is then not covered.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	// +optional
	Images []string `json:"images,omitempty"`
}

// Exemption lets through for a time what a Gate denies. It says nothing of what could not
// be decided.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=exempt,categories={sluice}
// +kubebuilder:printcolumn:name="Gates",type=string,JSONPath=`.spec.gates`
// +kubebuilder:printcolumn:name="Policies",type=string,JSONPath=`.spec.policies`
// +kubebuilder:printcolumn:name="Expires",type=string,format=date-time,JSONPath=`.spec.expires`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Images",type=string,JSONPath=`.spec.images`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Exemption struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec is what is let through.
	Spec ExemptionSpec `json:"spec"`
}

// ExemptionList is a list of Exemptions.
// +kubebuilder:object:root=true
type ExemptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Exemption `json:"items"`
}
