// Package v1alpha1 is the first, small version of Workload. It is served beside v1beta1,
// which is what is stored, and nothing is lost from one to the other.
//
// +kubebuilder:object:generate=true
// +groupName=sluice.dev
package v1alpha1
