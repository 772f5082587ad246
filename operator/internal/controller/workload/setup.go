package workload

import (
	"context"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
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
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// The rights of the controller. Secrets and ConfigMaps: their metadata is watched
// everywhere, since pods wait for those they refer to; those alone are read, one at a time.
//
// +kubebuilder:rbac:groups=sluice.dev,resources=workloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=sluice.dev,resources=workloads/status,verbs=patch
// +kubebuilder:rbac:groups=sluice.dev,resources=workloads/finalizers,verbs=update
// +kubebuilder:rbac:groups=sluice.dev,resources=gates;exemptions,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;watch;patch
// +kubebuilder:rbac:groups="",resources=services;configmaps;serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;delete
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=sluice-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=sluice-system,resources=events,verbs=create

// Indexes of the cache: Workloads by what they depend on, and children by the Workload
// that their label names.
const (
	indexDependencies = "spec.dependsOn"
	indexInstance     = "instance"
)

// Pace is how much the controller does at a time, and how soon it tries again.
type Pace struct {
	// Workers is how many Workloads are reconciled at a time.
	Workers int
	// RetryBase and RetryMax bound the pause after a failure, which doubles with each.
	RetryBase, RetryMax time.Duration
}

// SetupWithManager registers the controller. references is the cache of the Secrets and
// ConfigMaps that Gates name: a change there judges every Workload again. names is that of
// NewNames: a change there wakes the Workloads whose pods use what changed.
func (r *Reconciler) SetupWithManager(ctx context.Context, m ctrl.Manager, references, names cache.Cache, pace Pace) error {
	if err := index(ctx, m); err != nil {
		return err
	}
	everyone := handler.EnqueueRequestsFromMapFunc(r.everyone)
	r.woken = make(chan event.GenericEvent)
	b := ctrl.NewControllerManagedBy(m).
		For(&v1beta1.Workload{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{},
			deleting, predicate.Funcs{UpdateFunc: r.statusForged}))).
		Watches(&v1beta1.Workload{}, handler.EnqueueRequestsFromMapFunc(r.dependents)).
		Watches(&v1beta1.Workload{}, handler.EnqueueRequestsFromMapFunc(awaited)).
		Watches(&v1beta1.Gate{}, everyone).
		Watches(&v1beta1.Gate{}, r.forgetGate()).
		Watches(&v1beta1.Exemption{}, everyone).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(ofClaim)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Kind(names, client.Object(Metadata(kindSecret)), handler.EnqueueRequestsFromMapFunc(r.users(kindSecret)))).
		WatchesRawSource(source.Kind(names, client.Object(Metadata(kindConfigMap)), handler.EnqueueRequestsFromMapFunc(r.users(kindConfigMap)))).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(r.beside), builder.WithPredicates(retargeted)).
		WatchesRawSource(source.Kind(references, client.Object(&corev1.Secret{}), handler.EnqueueRequestsFromMapFunc(r.everyone))).
		WatchesRawSource(source.Kind(references, client.Object(&corev1.ConfigMap{}), handler.EnqueueRequestsFromMapFunc(r.everyone)))
	b = b.WatchesRawSource(source.Channel(r.woken, &handler.EnqueueRequestForObject{}))
	for _, gvk := range ChildKinds {
		b = b.Owns(Child(gvk))
	}
	warm := true
	return b.WithOptions(controller.Options{
		MaxConcurrentReconciles: pace.Workers,
		RateLimiter: jittered{
			workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](pace.RetryBase, pace.RetryMax),
		},
		// A replica that waits to lead has its caches filled, and takes over at once.
		EnableWarmup: &warm,
	}).Complete(r)
}

// jittered spreads what failed together, such as on a registry that was down, so that it
// is not tried again together.
type jittered struct {
	workqueue.TypedRateLimiter[reconcile.Request]
}

// retryJitter is by how much of itself a pause is made longer at most.
const retryJitter = 0.25

// When is the pause of the limiter underneath, and up to a quarter more.
func (j jittered) When(request reconcile.Request) time.Duration {
	return wait.Jitter(j.TypedRateLimiter.When(request), retryJitter)
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
// operator's label, and of who set which field only what the operator did.
func CacheByObject() map[client.Object]cache.ByObject {
	managed := labels.SelectorFromSet(labels.Set{render.LabelManagedBy: render.ManagedBy})
	objects := map[client.Object]cache.ByObject{
		&autoscalingv2.HorizontalPodAutoscaler{}: {Transform: cache.TransformStripManagedFields()},
	}
	for _, gvk := range ChildKinds {
		objects[Child(gvk)] = cache.ByObject{Label: managed, Transform: keepOwnFields}
	}
	objects[&corev1.PersistentVolumeClaim{}] = cache.ByObject{Label: managed}
	return objects
}

// keepOwnFields drops of who set which field all that nothing here reads: the entries of
// other managers, and of the operator's own all but its annotations (see holds). Parsed,
// they are two thirds of a child.
func keepOwnFields(o any) (any, error) {
	child, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	// Not by GetManagedFields, which converts each entry there and back.
	entries, _, _ := unstructured.NestedFieldNoCopy(child.Object, "metadata", "managedFields")
	all, ok := entries.([]any)
	if !ok {
		return o, nil
	}
	var kept []any
	for _, e := range all {
		entry, _ := e.(map[string]any)
		if entry["manager"] != fieldManager || entry["operation"] != string(metav1.ManagedFieldsOperationApply) {
			continue
		}
		annotations, found, _ := unstructured.NestedFieldNoCopy(entry, "fieldsV1", "f:metadata", "f:annotations")
		entry["fieldsV1"] = map[string]any{}
		if found {
			entry["fieldsV1"] = map[string]any{"f:metadata": map[string]any{"f:annotations": annotations}}
		}
		kept = append(kept, entry)
	}
	metadata := child.Object["metadata"].(map[string]any)
	if metadata["managedFields"] = kept; len(kept) == 0 {
		delete(metadata, "managedFields")
	}
	return o, nil
}

// NewNames makes the cache of the metadata of Secrets and ConfigMaps in all namespaces. It
// is apart from the manager's, which holds the operator's own ConfigMaps and no others.
// Only what identifies an object and its version is kept, 300 bytes for each.
func NewNames(access *rest.Config, scheme *runtime.Scheme, mapper meta.RESTMapper) (cache.Cache, error) {
	names, err := cache.New(access, cache.Options{Scheme: scheme, Mapper: mapper, DefaultTransform: func(o any) (any, error) {
		if m, ok := o.(*metav1.PartialObjectMetadata); ok {
			m.Labels, m.Annotations, m.OwnerReferences, m.ManagedFields, m.Finalizers = nil, nil, nil, nil, nil
		}
		return o, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("make the cache of Secrets and ConfigMaps: %w", err)
	}
	return names, nil
}

func index(ctx context.Context, m ctrl.Manager) error {
	err := m.GetFieldIndexer().IndexField(ctx, &v1beta1.Workload{}, indexDependencies, func(o client.Object) []string {
		w := o.(*v1beta1.Workload)
		var keys []string
		for _, d := range w.Spec.DependsOn {
			keys = append(keys, gather.DependencyKey(w, d).String())
		}
		return keys
	})
	if err != nil {
		return fmt.Errorf("index %s: %w", indexDependencies, err)
	}
	// Without it, each reconcile would look at the labels of every child in its namespace.
	for _, gvk := range ChildKinds {
		err := m.GetFieldIndexer().IndexField(ctx, Child(gvk), indexInstance, func(o client.Object) []string {
			return []string{o.GetLabels()[render.LabelInstance]}
		})
		if err != nil {
			return fmt.Errorf("index %s by %s: %w", gvk.Kind, indexInstance, err)
		}
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

// users are the Workloads whose pods use a Secret or ConfigMap.
func (r *Reconciler) users(kind string) handler.MapFunc {
	return func(_ context.Context, o client.Object) []reconcile.Request {
		return r.usage.of(kind, client.ObjectKeyFromObject(o))
	}
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
	// Only names are read.
	if err := r.Client.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
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
