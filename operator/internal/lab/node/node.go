// Package node is a stand-in for a node of a cluster: it plays the scheduler, the
// kubelet and a storage provisioner, and runs no container. What it plays is only what
// controllers and users see in the API; everything else (Deployments, StatefulSets,
// Jobs, volume binding, garbage collection) is left to the real controller manager.
//
// Every pod fits: requests, node selectors, affinities and taints are not looked at.
package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

const (
	// Name of the Node object.
	Name = "lab-node"
	// StorageClass is the cluster's default class; only its claims get a volume.
	StorageClass = "lab"
	// FailAnnotation on a pod names the reason its containers wait with, such as
	// CrashLoopBackOff or ImagePullBackOff, instead of becoming ready. Taking it off
	// lets them start.
	FailAnnotation = "lab.sluice.dev/fail"

	provisioner = "volumes.lab.sluice.dev"
	// hostIP of the node: documentation range, never dialled.
	hostIP = "192.0.2.10"
	// claimIndex finds the pods that use a claim.
	claimIndex = "claims"
)

// Node plays one node until it is stopped.
type Node struct {
	client  client.Client // reads from the cache
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // of the manager; set before done is closed
	lastPod atomic.Uint32
}

// Start registers the node and returns when it plays. The context bounds the start. The
// log gets what could not be played, which is tried again.
func Start(ctx context.Context, access *rest.Config, log logr.Logger) (*Node, error) {
	mgr, err := newManager(access, log)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", Name, err)
	}
	n := &Node{client: mgr.GetClient(), done: make(chan struct{})}
	if err := n.watch(ctx, mgr); err != nil {
		return nil, fmt.Errorf("node %s: %w", Name, err)
	}
	playing, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() {
		defer close(n.done)
		n.err = mgr.Start(playing)
	}()
	ctx, timeout := context.WithTimeout(ctx, limits.LabReady)
	defer timeout()
	if err := n.ready(ctx, mgr); err != nil {
		return nil, errors.Join(fmt.Errorf("node %s: %w", Name, err), n.Stop())
	}
	return n, nil
}

// Done is closed when the play has ended.
func (n *Node) Done() <-chan struct{} { return n.done }

// Stop ends the play. Pods stay in the API as they are.
func (n *Node) Stop() error {
	n.cancel()
	<-n.done
	return n.err
}

func newManager(access *rest.Config, log logr.Logger) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("scheme: %w", err)
	}
	access = rest.CopyConfig(access)
	access.UserAgent = Name
	yes, no := true, false
	return ctrl.NewManager(access, manager.Options{
		Scheme:  scheme,
		Logger:  log,
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		// Names are unique in a process unless told; a test may run several clusters.
		// The priority queue logs to a global logger, which prints a stack when nobody set it.
		Controller: config.Controller{SkipNameValidation: &yes, UsePriorityQueue: &no, MaxConcurrentReconciles: limits.LabWorkers},
	})
}

// watch sets up one controller per kind that the node plays.
func (n *Node) watch(ctx context.Context, mgr manager.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, claimIndex, func(o client.Object) []string {
		return claimsOf(o.(*corev1.Pod))
	})
	if err != nil {
		return fmt.Errorf("index pods by claim: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("pod").For(&corev1.Pod{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(n.podsOfClaim)).
		Complete(playing(mgr.GetClient(), n.playPod))
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("claim").For(&corev1.PersistentVolumeClaim{}).
		Complete(playing(mgr.GetClient(), n.playClaim))
	if err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("volume").For(&corev1.PersistentVolume{}).
		Complete(playing(mgr.GetClient(), n.playVolume))
	if err != nil {
		return fmt.Errorf("watch volumes: %w", err)
	}
	return nil
}

// ready registers what the node brings, and waits until it plays.
func (n *Node) ready(ctx context.Context, mgr manager.Manager) error {
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        StorageClass,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: provisioner,
	}
	if err := direct.Create(ctx, class); err != nil {
		return fmt.Errorf("create StorageClass %s: %w", StorageClass, err)
	}
	if err := register(ctx, direct); err != nil {
		return err
	}
	select {
	case <-mgr.Elected(): // alone, so this is the start of the controllers
		return nil
	case <-n.done:
		return errors.New("ended while it started")
	case <-ctx.Done():
		return fmt.Errorf("start to play: %w", ctx.Err())
	}
}

// register creates the Node, Ready and large enough for every test.
func register(ctx context.Context, c client.Client) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: map[string]string{
		corev1.LabelHostname:       Name,
		corev1.LabelOSStable:       "linux",
		corev1.LabelArchStable:     "amd64",
		corev1.LabelTopologyZone:   "lab",
		corev1.LabelTopologyRegion: "lab",
	}}}
	if err := c.Create(ctx, n); err != nil {
		return fmt.Errorf("create the Node: %w", err)
	}
	// Admission taints a new node until the node lifecycle controller sees it ready. The
	// lab runs none. Patches, because other controllers write to a new Node as well.
	before := n.DeepCopy()
	n.Spec.Taints = nil
	if err := c.Patch(ctx, n, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("take the taint off the Node: %w", err)
	}
	before = n.DeepCopy()
	n.Status = corev1.NodeStatus{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("1000"),
			corev1.ResourceMemory: resource.MustParse("4Ti"),
			corev1.ResourcePods:   resource.MustParse("20000"),
		},
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "LabNodeReady",
			Message: "plays pods and runs none", LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
		}},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: hostIP}, {Type: corev1.NodeHostName, Address: Name}},
	}
	n.Status.Allocatable = n.Status.Capacity
	if err := c.Status().Patch(ctx, n, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("set the status of the Node: %w", err)
	}
	return nil
}

// playing turns a function over an object from the cache into a reconciler. What changed
// or went away under its hands comes again as an event, so it is no error.
func playing[O interface {
	client.Object
	comparable
}](c client.Client, play func(context.Context, O) error) reconcile.Reconciler {
	return reconcile.AsReconciler(c, reconcile.TypedFunc[O](func(ctx context.Context, object O) (ctrl.Result, error) {
		err := play(ctx, object)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}))
}
