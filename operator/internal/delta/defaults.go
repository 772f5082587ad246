package delta

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	admissionregistrationv1 "k8s.io/kubernetes/pkg/apis/admissionregistration/v1"
	admissionregistrationv1alpha1 "k8s.io/kubernetes/pkg/apis/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/kubernetes/pkg/apis/admissionregistration/v1beta1"
	appsv1 "k8s.io/kubernetes/pkg/apis/apps/v1"
	appsv1beta1 "k8s.io/kubernetes/pkg/apis/apps/v1beta1"
	appsv1beta2 "k8s.io/kubernetes/pkg/apis/apps/v1beta2"
	authenticationv1 "k8s.io/kubernetes/pkg/apis/authentication/v1"
	autoscalingv1 "k8s.io/kubernetes/pkg/apis/autoscaling/v1"
	autoscalingv2 "k8s.io/kubernetes/pkg/apis/autoscaling/v2"
	autoscalingv2beta1 "k8s.io/kubernetes/pkg/apis/autoscaling/v2beta1"
	autoscalingv2beta2 "k8s.io/kubernetes/pkg/apis/autoscaling/v2beta2"
	batchv1 "k8s.io/kubernetes/pkg/apis/batch/v1"
	batchv1beta1 "k8s.io/kubernetes/pkg/apis/batch/v1beta1"
	certificatesv1beta1 "k8s.io/kubernetes/pkg/apis/certificates/v1beta1"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	discoveryv1 "k8s.io/kubernetes/pkg/apis/discovery/v1"
	discoveryv1beta1 "k8s.io/kubernetes/pkg/apis/discovery/v1beta1"
	extensionsv1beta1 "k8s.io/kubernetes/pkg/apis/extensions/v1beta1"
	flowcontrolv1 "k8s.io/kubernetes/pkg/apis/flowcontrol/v1"
	flowcontrolv1beta1 "k8s.io/kubernetes/pkg/apis/flowcontrol/v1beta1"
	flowcontrolv1beta2 "k8s.io/kubernetes/pkg/apis/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/kubernetes/pkg/apis/flowcontrol/v1beta3"
	networkingv1 "k8s.io/kubernetes/pkg/apis/networking/v1"
	networkingv1beta1 "k8s.io/kubernetes/pkg/apis/networking/v1beta1"
	rbacv1 "k8s.io/kubernetes/pkg/apis/rbac/v1"
	rbacv1alpha1 "k8s.io/kubernetes/pkg/apis/rbac/v1alpha1"
	rbacv1beta1 "k8s.io/kubernetes/pkg/apis/rbac/v1beta1"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	schedulingv1alpha1 "k8s.io/kubernetes/pkg/apis/scheduling/v1alpha1"
	schedulingv1beta1 "k8s.io/kubernetes/pkg/apis/scheduling/v1beta1"
	storagev1 "k8s.io/kubernetes/pkg/apis/storage/v1"
	storagev1alpha1 "k8s.io/kubernetes/pkg/apis/storage/v1alpha1"
	storagev1beta1 "k8s.io/kubernetes/pkg/apis/storage/v1beta1"
)

// defaulters is a scheme with the API server's defaults for every kind of its that has any.
// They are those of the feature gates' defaults.
var defaulters = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, register := range []func(*runtime.Scheme) error{
		admissionregistrationv1.RegisterDefaults, admissionregistrationv1alpha1.RegisterDefaults, admissionregistrationv1beta1.RegisterDefaults,
		appsv1.RegisterDefaults, appsv1beta1.RegisterDefaults, appsv1beta2.RegisterDefaults,
		authenticationv1.RegisterDefaults,
		autoscalingv1.RegisterDefaults, autoscalingv2.RegisterDefaults, autoscalingv2beta1.RegisterDefaults, autoscalingv2beta2.RegisterDefaults,
		batchv1.RegisterDefaults, batchv1beta1.RegisterDefaults,
		certificatesv1beta1.RegisterDefaults,
		corev1.RegisterDefaults,
		discoveryv1.RegisterDefaults, discoveryv1beta1.RegisterDefaults,
		extensionsv1beta1.RegisterDefaults,
		flowcontrolv1.RegisterDefaults, flowcontrolv1beta1.RegisterDefaults, flowcontrolv1beta2.RegisterDefaults, flowcontrolv1beta3.RegisterDefaults,
		networkingv1.RegisterDefaults, networkingv1beta1.RegisterDefaults,
		rbacv1.RegisterDefaults, rbacv1alpha1.RegisterDefaults, rbacv1beta1.RegisterDefaults,
		schedulingv1.RegisterDefaults, schedulingv1alpha1.RegisterDefaults, schedulingv1beta1.RegisterDefaults,
		storagev1.RegisterDefaults, storagev1alpha1.RegisterDefaults, storagev1beta1.RegisterDefaults,
	} {
		if err := register(s); err != nil {
			panic("defaults: " + err.Error()) // of a list that was made when this was compiled
		}
	}
	return s
})
