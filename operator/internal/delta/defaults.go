package delta

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	admissionregistrationv1 "k8s.io/kubernetes/pkg/apis/admissionregistration/v1"
	appsv1 "k8s.io/kubernetes/pkg/apis/apps/v1"
	authenticationv1 "k8s.io/kubernetes/pkg/apis/authentication/v1"
	autoscalingv1 "k8s.io/kubernetes/pkg/apis/autoscaling/v1"
	autoscalingv2 "k8s.io/kubernetes/pkg/apis/autoscaling/v2"
	batchv1 "k8s.io/kubernetes/pkg/apis/batch/v1"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	discoveryv1 "k8s.io/kubernetes/pkg/apis/discovery/v1"
	flowcontrolv1 "k8s.io/kubernetes/pkg/apis/flowcontrol/v1"
	networkingv1 "k8s.io/kubernetes/pkg/apis/networking/v1"
	rbacv1 "k8s.io/kubernetes/pkg/apis/rbac/v1"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	storagev1 "k8s.io/kubernetes/pkg/apis/storage/v1"
	"k8s.io/kubernetes/pkg/features"
)

// defaulting are the feature gates, off in the Kubernetes that is compiled in, without which it
// leaves out defaults that servers of later versions set. Set on both sides, such a default is no
// difference, on a server that has the gate or has not: here a StatefulSet's maxUnavailable, from
// 1.37 on.
var defaulting = map[string]bool{string(features.MaxUnavailableStatefulSet): true}

// defaulters is a scheme with the API server's defaults, with its feature gates as they come, but
// for defaulting, which are on for the whole process: nothing else in it asks for them.
// Versions in alpha and beta have none here: servers have them off or no longer, Workloads
// become none of them, and each costs the command at every start.
var defaulters = sync.OnceValue(func() *runtime.Scheme {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(defaulting); err != nil {
		panic("defaults: " + err.Error()) // of a list that was made when this was compiled
	}
	s := runtime.NewScheme()
	for _, register := range []func(*runtime.Scheme) error{
		admissionregistrationv1.RegisterDefaults,
		appsv1.RegisterDefaults,
		authenticationv1.RegisterDefaults,
		autoscalingv1.RegisterDefaults, autoscalingv2.RegisterDefaults,
		batchv1.RegisterDefaults,
		corev1.RegisterDefaults,
		discoveryv1.RegisterDefaults,
		flowcontrolv1.RegisterDefaults,
		networkingv1.RegisterDefaults,
		rbacv1.RegisterDefaults,
		schedulingv1.RegisterDefaults,
		storagev1.RegisterDefaults,
	} {
		if err := register(s); err != nil {
			panic("defaults: " + err.Error()) // of a list that was made when this was compiled
		}
	}
	return s
})
