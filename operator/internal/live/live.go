// Package live reads a cluster for the command line, with what the user's kubeconfig
// allows. It writes nothing.
package live

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// Options say which cluster, as kubectl's flags do.
type Options struct {
	Kubeconfig, Context, Namespace string
}

// Cluster is a cluster and the namespace that is meant where none is named.
type Cluster struct {
	Namespace string
	client    client.WithWatch
	// words are what the cluster calls its kinds, asked for when a name is none of them.
	words discovery.DiscoveryInterface
}

// Connect reads the kubeconfig. Nothing is asked of the cluster yet.
func Connect(o Options) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.Context.Namespace = o.Namespace
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loaded.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("kubeconfig: there is none, or nothing in it, at %s: set KUBECONFIG or give --kubeconfig", strings.Join(rules.GetLoadingPrecedence(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.UserAgent = "sluice"
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1beta1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	bounded := rest.CopyConfig(config)
	bounded.Timeout = limits.ClusterCall
	words, err := discovery.NewDiscoveryClientForConfig(bounded)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return &Cluster{Namespace: namespace, client: c, words: words}, nil
}

// Workloads lists the Workloads of a namespace, or of all with an empty one, and the
// version of the list to watch from.
func (c *Cluster) Workloads(ctx context.Context, namespace string) ([]v1beta1.Workload, string, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.ClusterCall)
	defer cancel()
	list := &v1beta1.WorkloadList{}
	if err := c.client.List(ctx, list, client.InNamespace(namespace), client.Limit(limits.Objects)); err != nil {
		return nil, "", fmt.Errorf("list Workloads: %w", err)
	}
	if list.Continue != "" {
		return nil, "", fmt.Errorf("list Workloads: more than %d (limits.Objects): name a namespace", limits.Objects)
	}
	return list.Items, list.ResourceVersion, nil
}

// Watch tells of every change after a version until the context ends.
func (c *Cluster) Watch(ctx context.Context, namespace, from string) (watch.Interface, error) {
	w, err := c.client.Watch(ctx, &v1beta1.WorkloadList{}, &client.ListOptions{
		Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true},
	})
	if err != nil {
		return nil, fmt.Errorf("watch Workloads: %w", err)
	}
	return w, nil
}

// Workload reads one; nil where there is none.
func (c *Cluster) Workload(ctx context.Context, namespace, name string) (*v1beta1.Workload, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.ClusterCall)
	defer cancel()
	w := &v1beta1.Workload{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, w)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Workload %s/%s: %w", namespace, name, err)
	}
	return w, nil
}

// Object reads an object of any kind; nil where there is none, or not its kind.
func (c *Cluster) Object(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.ClusterCall)
	defer cancel()
	mapping, err := c.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look %s up: %w", gvk.Kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	err = c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", gvk.Kind, name, err)
	}
	return u, nil
}

// ChildKinds are the kinds that a Workload renders to.
var ChildKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "ConfigMap"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Version: "v1", Kind: "Service"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "batch", Version: "v1", Kind: "CronJob"},
}

// Children lists what a Workload owns.
func (c *Cluster) Children(ctx context.Context, w *v1beta1.Workload) ([]*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.ClusterCall)
	defer cancel()
	var out []*unstructured.Unstructured
	for _, gvk := range ChildKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := c.client.List(ctx, list, client.InNamespace(w.Namespace), client.Limit(limits.Objects),
			client.MatchingLabels{render.LabelManagedBy: render.ManagedBy, render.LabelInstance: w.Name})
		if err != nil {
			return nil, fmt.Errorf("list %s in %s: %w", gvk.Kind, w.Namespace, err)
		}
		for i := range list.Items {
			if metav1.IsControlledBy(&list.Items[i], w) {
				out = append(out, &list.Items[i])
			}
		}
	}
	return out, nil
}

// Events lists the events of a Workload that there still are.
func (c *Cluster) Events(ctx context.Context, w *v1beta1.Workload) ([]corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.ClusterCall)
	defer cancel()
	list := &corev1.EventList{}
	err := c.client.List(ctx, list, client.InNamespace(w.Namespace), client.Limit(limits.Objects),
		client.MatchingFields{"involvedObject.kind": v1beta1.WorkloadKind, "involvedObject.name": w.Name})
	if err != nil {
		return nil, fmt.Errorf("list events of %s/%s: %w", w.Namespace, w.Name, err)
	}
	return list.Items, nil
}

// Owner reads a Workload, or the one that an object belongs to, by its controllers; nil
// where there is none. kind is a kind, a resource or a short name, in any case, with or without
// its group (deployment.apps).
func (c *Cluster) Owner(ctx context.Context, kind, namespace, name string) (*v1beta1.Workload, error) {
	switch strings.ToLower(kind) {
	case "workload", "workloads", "wl":
		return c.Workload(ctx, namespace, name)
	}
	gvk, err := c.kind(kind)
	if err != nil || gvk.Empty() {
		return nil, err
	}
	for range limits.OwnerSteps {
		u, err := c.Object(ctx, gvk, namespace, name)
		if err != nil || u == nil {
			return nil, err
		}
		owner := metav1.GetControllerOf(u)
		if owner == nil {
			return nil, nil
		}
		gvk, name = schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind), owner.Name
		if gvk.Group == v1beta1.GroupVersion.Group && gvk.Kind == v1beta1.WorkloadKind {
			return c.Workload(ctx, namespace, name)
		}
	}
	return nil, nil
}

// kind looks a resource or a kind up; empty where the cluster has none of that name.
func (c *Cluster) kind(name string) (schema.GroupVersionKind, error) {
	// The plural of a kind is its resource, but for what ends in s, y and the like, which
	// the mapper guesses as kubectl does.
	resource := schema.ParseGroupResource(strings.ToLower(name)).WithVersion("")
	gvk, err := c.client.RESTMapper().KindFor(resource)
	if meta.IsNoMatchError(err) {
		// Short names take some more questions.
		gvk, err = restmapper.NewShortcutExpander(c.client.RESTMapper(), c.words, nil).KindFor(resource)
	}
	if meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, nil
	}
	if err != nil {
		return gvk, fmt.Errorf("look %s up: %w", name, err)
	}
	return gvk, nil
}
