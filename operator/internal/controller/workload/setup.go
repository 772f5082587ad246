package workload

import (
	"context"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// The rights of the controller. Secrets: their metadata is watched everywhere, since a
// Workload waits for those it names; image pull Secrets are read one at a time.
//
// +kubebuilder:rbac:groups=sluice.dev,resources=workloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=sluice.dev,resources=workloads/status,verbs=patch
// +kubebuilder:rbac:groups=sluice.dev,resources=workloads/finalizers,verbs=update
// +kubebuilder:rbac:groups=sluice.dev,resources=gates,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services;configmaps;serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",namespace=sluice-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=sluice-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=sluice-system,resources=events,verbs=create;patch

const (
	indexSecrets      = "spec.secrets.name"
	indexDependencies = "spec.dependsOn"
)

// SetupWithManager registers the controller. references is the cache of the Secrets and
// ConfigMaps that Gates name: a change there judges every Workload again.
func (r *Reconciler) SetupWithManager(ctx context.Context, m ctrl.Manager, references cache.Cache, workers int) error {
	if err := index(ctx, m); err != nil {
		return err
	}
	everyone := handler.EnqueueRequestsFromMapFunc(r.everyone)
	b := ctrl.NewControllerManagedBy(m).
		For(&v1beta1.Workload{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{},
			deleting, predicate.Funcs{UpdateFunc: r.statusForged}))).
		Watches(&v1beta1.Workload{}, handler.EnqueueRequestsFromMapFunc(r.dependents)).
		Watches(&v1beta1.Gate{}, everyone).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.users)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(r.beside), builder.WithPredicates(retargeted)).
		WatchesRawSource(source.Kind(references, client.Object(&corev1.Secret{}), handler.EnqueueRequestsFromMapFunc(r.everyone))).
		WatchesRawSource(source.Kind(references, client.Object(&corev1.ConfigMap{}), handler.EnqueueRequestsFromMapFunc(r.everyone)))
	for _, gvk := range ChildKinds {
		b = b.Owns(Child(gvk))
	}
	return b.WithOptions(controller.Options{
		MaxConcurrentReconciles: workers,
		// One second to five minutes: a registry that is down is not asked in a tight loop.
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 5*time.Minute),
	}).Complete(r)
}

// deleting lets the event through that sets the deletion timestamp: it changes neither
// generation nor labels for objects without a graceful period.
var deleting = predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetDeletionTimestamp() != nil })

// statusForged lets the event through when someone else wrote the status: it is put right
// at once, and not at the next resync. Our own writes bring no further reconcile.
func (r *Reconciler) statusForged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*v1beta1.Workload), e.ObjectNew.(*v1beta1.Workload)
	if sameStatus(before.Status, after.Status) {
		return false
	}
	known, ok := r.memories.Load(client.ObjectKeyFromObject(after))
	if !ok {
		return true
	}
	written := known.(*memory).status.Load()
	return written == nil || !sameStatus(*written, after.Status)
}

// CacheByObject bounds what the manager's cache holds: of children, those that carry the
// operator's label; of autoscalers, not who set which field.
func CacheByObject() map[client.Object]cache.ByObject {
	managed := labels.SelectorFromSet(labels.Set{render.LabelManagedBy: render.ManagedBy})
	objects := map[client.Object]cache.ByObject{
		&autoscalingv2.HorizontalPodAutoscaler{}: {Transform: cache.TransformStripManagedFields()},
	}
	for _, gvk := range ChildKinds {
		objects[Child(gvk)] = cache.ByObject{Label: managed}
	}
	return objects
}

func index(ctx context.Context, m ctrl.Manager) error {
	err := m.GetFieldIndexer().IndexField(ctx, &v1beta1.Workload{}, indexSecrets, func(o client.Object) []string {
		var names []string
		for _, s := range o.(*v1beta1.Workload).Spec.Secrets {
			names = append(names, s.Name)
		}
		return names
	})
	if err != nil {
		return fmt.Errorf("index %s: %w", indexSecrets, err)
	}
	err = m.GetFieldIndexer().IndexField(ctx, &v1beta1.Workload{}, indexDependencies, func(o client.Object) []string {
		w := o.(*v1beta1.Workload)
		var keys []string
		for _, d := range w.Spec.DependsOn {
			keys = append(keys, dependencyKey(w, d).String())
		}
		return keys
	})
	if err != nil {
		return fmt.Errorf("index %s: %w", indexDependencies, err)
	}
	return nil
}

func (r *Reconciler) everyone(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx)
}

// dependents are the Workloads that wait for this one.
func (r *Reconciler) dependents(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{indexDependencies: client.ObjectKeyFromObject(o).String()})
}

// users are the Workloads that name this Secret.
func (r *Reconciler) users(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexSecrets: o.GetName()})
}

func (r *Reconciler) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(o.GetName()))
}

// beside are the Workloads in the namespace of an object.
func (r *Reconciler) beside(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(o.GetNamespace()))
}

func (r *Reconciler) requests(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	list := &v1beta1.WorkloadList{}
	if err := r.Client.List(ctx, list, options...); err != nil {
		// The cache answers this; it only fails while the process ends.
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// Metadata is an empty object for metadata-only reads of a core kind.
func Metadata(kind string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return m
}
