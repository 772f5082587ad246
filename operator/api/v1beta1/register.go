package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "sluice.dev", Version: "v1beta1"}

// Kinds of this package, as they stand in manifests.
const (
	WorkloadKind  = "Workload"
	GateKind      = "Gate"
	ExemptionKind = "Exemption"
)

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Workload{}, &WorkloadList{}, &Gate{}, &GateList{}, &Exemption{}, &ExemptionList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
