package lab

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// fieldManager is what `kubectl apply --server-side` writes as.
const fieldManager = "kubectl"

// The waves of Apply. What judges comes before what is judged.
const (
	waveDefinitions = iota
	waveNamespaces
	waveRest
	waveWebhooks
	waveRules
	waveWorkloads
	waves
)

func waveOf(o *unstructured.Unstructured) int {
	switch kind := o.GroupVersionKind().GroupKind(); {
	case isDefinition(o):
		return waveDefinitions
	case kind == schema.GroupKind{Kind: "Namespace"}:
		return waveNamespaces
	case kind.Group == "admissionregistration.k8s.io":
		return waveWebhooks
	case kind.Group == v1beta1.GroupVersion.Group && kind.Kind == v1beta1.WorkloadKind:
		return waveWorkloads
	case kind.Group == v1beta1.GroupVersion.Group:
		return waveRules
	}
	return waveRest
}

func isDefinition(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition"}
}

// Apply writes the objects by server-side apply, taking over the fields they name, in
// waves as Argo CD would: CRDs (until they are served), Namespaces, everything else,
// webhook configurations, Gates, Workloads. Within a wave the given order holds. An
// object whose webhook does not answer is tried again for limits.LabServed. The objects
// are not changed.
func (c *Cluster) Apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	var byWave [waves][]*unstructured.Unstructured
	for _, o := range objects {
		byWave[waveOf(o)] = append(byWave[waveOf(o)], o)
	}
	for _, wave := range byWave {
		for _, o := range wave {
			if err := c.applyOne(ctx, o.DeepCopy()); err != nil {
				return fmt.Errorf("apply %s: %w", title(o), err)
			}
		}
		for _, o := range wave {
			if !isDefinition(o) {
				continue
			}
			if err := c.untilServed(ctx, o.GetName()); err != nil {
				return fmt.Errorf("apply %s: %w", title(o), err)
			}
		}
	}
	return nil
}

func (c *Cluster) applyOne(ctx context.Context, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	mapping, err := c.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && o.GetNamespace() == "" {
		o.SetNamespace("default")
	}
	o.SetManagedFields(nil)
	var last error
	err = wait.PollUntilContextTimeout(ctx, limits.LabPoll, limits.LabServed, true, func(ctx context.Context) (bool, error) {
		last = c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(fieldManager), client.ForceOwnership)
		if webhookSilent(last) {
			return false, nil
		}
		return true, last
	})
	if wait.Interrupted(err) && last != nil {
		return fmt.Errorf("its webhook does not answer: %w", last)
	}
	return err
}

// webhookSilent says whether the API server could not ask a webhook. An answer that
// denies has another status.
func webhookSilent(err error) bool {
	if !apierrors.IsInternalError(err) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "failed calling webhook") || strings.Contains(text, "conversion webhook")
}

// untilServed waits until a CRD is Established and each of its served versions is in
// discovery: objects of its kind are refused before.
func (c *Cluster) untilServed(ctx context.Context, name string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, limits.LabPoll, limits.LabServed, true, func(ctx context.Context) (bool, error) {
		last = c.served(ctx, name)
		return last == nil, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("not served: %w", last)
	}
	return err
}

func (c *Cluster) served(ctx context.Context, name string) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return err
	}
	state := "no condition"
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			state = string(condition.Status)
		}
		if condition.Type == apiextensionsv1.NamesAccepted && condition.Status == apiextensionsv1.ConditionFalse {
			return fmt.Errorf("its names are refused: %s", condition.Message)
		}
	}
	if state != string(apiextensionsv1.ConditionTrue) {
		return fmt.Errorf("not Established yet (%s)", state)
	}
	kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		if _, err := c.client.RESTMapper().RESTMapping(kind, version.Name); err != nil {
			return fmt.Errorf("not in discovery yet: %w", err)
		}
	}
	return nil
}

// RedirectWebhooks changes the webhook configurations and conversion webhooks among
// objects to call baseURL (https://host:port, without a slash at the end) plus the path
// of the Service they name: the lab has no Service network. It also takes out caBundle,
// which the manager fills in and a later Apply must not wipe.
func RedirectWebhooks(objects []*unstructured.Unstructured, baseURL string) {
	for _, o := range objects {
		switch o.GetKind() {
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			webhooks, _ := o.Object["webhooks"].([]any)
			for _, webhook := range webhooks {
				if w, ok := webhook.(map[string]any); ok {
					redirect(w["clientConfig"], baseURL)
				}
			}
		case "CustomResourceDefinition":
			clientConfig, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "conversion", "webhook", "clientConfig")
			redirect(clientConfig, baseURL)
		}
	}
}

// redirect changes one clientConfig that names a Service; one with a URL stays.
func redirect(clientConfig any, baseURL string) {
	target, ok := clientConfig.(map[string]any)
	if !ok {
		return
	}
	service, ok := target["service"].(map[string]any)
	if !ok {
		return
	}
	path, _ := service["path"].(string)
	target["url"] = baseURL + path
	delete(target, "service")
	delete(target, "caBundle")
}

func title(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return fmt.Sprintf("%s %s", o.GetKind(), o.GetName())
	}
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}
