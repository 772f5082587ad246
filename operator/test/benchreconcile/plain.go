package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// plainAccount writes the children without an operator. It is a ServiceAccount as the
// operator has one: the API server queues the requests of both alike.
const plainAccount = "plain"

var plainUser = "system:serviceaccount:default:" + plainAccount

// plainAccess makes the account, with every right.
func plainAccess(ctx context.Context, b *bench) (*rest.Config, error) {
	named := map[string]any{"name": plainAccount, "namespace": metav1.NamespaceDefault}
	err := b.stage.Cluster.Apply(ctx, []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "v1", "kind": rbacv1.ServiceAccountKind, "metadata": named}},
		{Object: map[string]any{
			"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": plainAccount},
			"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "cluster-admin"},
			"subjects": []any{map[string]any{"kind": rbacv1.ServiceAccountKind, "name": plainAccount, "namespace": metav1.NamespaceDefault}},
		}},
	})
	if err != nil {
		return nil, err
	}
	kubeconfig, err := b.stage.Cluster.KubeconfigFor(ctx, metav1.NamespaceDefault, plainAccount)
	if err != nil {
		return nil, err
	}
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("access of %s: %w", plainUser, err)
	}
	access.QPS, access.Burst = float32(b.qps), 2*b.qps
	return access, nil
}

// plainChildren are what the operator made of each Workload, with the same digests, for
// other namespaces. They lack the owner and the operator's notes.
func plainChildren(ctx context.Context, c dynamic.Interface, n int) ([][]map[string]any, error) {
	out := make([][]map[string]any, n)
	for i := range n {
		namespace, name := place(operatorPrefix, i)
		stored, err := c.Resource(workloads).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get Workload %s/%s: %w", namespace, name, err)
		}
		w := &v1beta1.Workload{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, w); err != nil {
			return nil, fmt.Errorf("read Workload %s/%s: %w", namespace, name, err)
		}
		w.Namespace, _ = place(plainPrefix, i)
		children, err := render.Children(w)
		if err != nil {
			return nil, err
		}
		digests := map[string]string{}
		for _, image := range w.Status.Images {
			digests[image.Image] = image.Digest
		}
		out[i] = images.Pin(children, digests)
	}
	return out, nil
}

// writePlain applies the children with as many workers as the operator has, each of which
// writes those of one Workload after each other, and waits for the pods. It returns how
// long the writes took, and how long all took.
func (b *bench) writePlain(ctx context.Context) (wrote, available time.Duration, err error) {
	if err := b.stage.Cluster.Apply(ctx, namespaces(plainPrefix, b.workloads)); err != nil {
		return 0, 0, err
	}
	fleet, err := plainChildren(ctx, b.client, b.workloads)
	if err != nil {
		return 0, 0, err
	}
	access, err := plainAccess(ctx, b)
	if err != nil {
		return 0, 0, err
	}
	c, err := dynamic.NewForConfig(access)
	if err != nil {
		return 0, 0, fmt.Errorf("client of %s: %w", plainUser, err)
	}
	begin := time.Now()
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer func() { available = time.Since(begin) }()
		return until(both, b.client, deployments, b.workloads, func(u *unstructured.Unstructured) bool {
			return strings.HasPrefix(u.GetNamespace(), plainPrefix+"-") && isAvailable(u)
		})
	})
	group.Go(func() error {
		defer func() { wrote = time.Since(begin) }()
		writers, ctx := errgroup.WithContext(both)
		writers.SetLimit(b.workers)
		for _, children := range fleet {
			writers.Go(func() error { return applyAll(ctx, c, children) })
		}
		return writers.Wait()
	})
	err = group.Wait()
	return wrote, available, err
}

func applyAll(ctx context.Context, c dynamic.Interface, children []map[string]any) error {
	for _, content := range children {
		u := &unstructured.Unstructured{Object: content}
		plural, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
		_, err := c.Resource(plural).Namespace(u.GetNamespace()).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: plainAccount, Force: true})
		if err != nil {
			return fmt.Errorf("apply %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
		}
	}
	return nil
}
