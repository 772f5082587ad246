// Package v1beta1 is the API of Sluice: what a team commits (Workload) and what
// the platform demands of it (Gate).
//
// +kubebuilder:object:generate=true
// +groupName=sluice.dev
package v1beta1
