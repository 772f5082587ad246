package gather

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// Cluster is a Source over a cluster.
type Cluster struct {
	// Cache holds Gates, Exemptions and the metadata of namespaces.
	Cache client.Reader
	// References holds the Secrets and ConfigMaps of the operator's own namespace.
	References client.Reader
	// Live reads past the caches: image pull Secrets, whose content is not kept, and what a
	// cache may not have seen yet.
	Live client.Reader
	// OperatorNamespace is the only one whose Secrets and ConfigMaps a Gate may name. Keys
	// and policies anywhere else could be changed by whoever owns that namespace.
	OperatorNamespace string
	// Clock is the time; without one it is the machine's.
	Clock func() time.Time
}

// Gates implements Source.
func (c *Cluster) Gates(ctx context.Context, fresh bool) ([]v1beta1.Gate, error) {
	list := &v1beta1.GateList{}
	if err := c.reader(fresh).List(ctx, list); err != nil {
		return nil, fmt.Errorf("list Gates: %w", err)
	}
	return list.Items, nil
}

// Exemptions implements Source.
func (c *Cluster) Exemptions(ctx context.Context) ([]v1beta1.Exemption, error) {
	list := &v1beta1.ExemptionList{}
	if err := c.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return list.Items, nil
}

// OwnNamespace implements Source.
func (c *Cluster) OwnNamespace() string { return c.OperatorNamespace }

// Shared implements Source.
func (c *Cluster) Shared() bool { return true }

// Now implements Source.
func (c *Cluster) Now() time.Time { return tell(c.Clock) }

// Namespace implements Source.
func (c *Cluster) Namespace(ctx context.Context, name string, fresh bool) (gate.Namespace, error) {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.reader(fresh).Get(ctx, client.ObjectKey{Name: name}, ns); err != nil {
		return gate.Namespace{}, err
	}
	return gate.Namespace{Name: name, Labels: ns.Labels}, nil
}

// ConfigMap implements Source.
func (c *Cluster) ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error) {
	if err := c.own(namespace); err != nil {
		return nil, err
	}
	cm := &corev1.ConfigMap{}
	if err := c.reference(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cm); err != nil {
		return nil, err
	}
	return cm.Data, nil
}

// Secret implements Source.
func (c *Cluster) Secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	if err := c.own(namespace); err != nil {
		return nil, err
	}
	s := &corev1.Secret{}
	if err := c.reference(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
		return nil, err
	}
	return s.Data, nil
}

// RegistrySecret implements Source.
func (c *Cluster) RegistrySecret(ctx context.Context, namespace, name string) ([]byte, error) {
	data, err := c.Secret(ctx, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("Secret %s/%s: %w", namespace, name, same(err))
	}
	return dockerConfig(data, namespace, name)
}

func (c *Cluster) reader(fresh bool) client.Reader {
	if fresh {
		return c.Live
	}
	return c.Cache
}

// reference reads what a Gate names. A Secret that was applied a moment before the
// Workload may not be in the cache yet, so that absence is asked for again.
func (c *Cluster) reference(ctx context.Context, key client.ObjectKey, into client.Object) error {
	err := c.References.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return c.Live.Get(ctx, key, into)
	}
	return err
}

func (c *Cluster) own(namespace string) error {
	if namespace != c.OperatorNamespace {
		return fmt.Errorf("namespace %s: a Gate's Secrets and ConfigMaps have to be in the operator's namespace %s", namespace, c.OperatorNamespace)
	}
	return nil
}

// PullSecret implements Source.
func (c *Cluster) PullSecret(ctx context.Context, namespace, name string) ([]byte, error) {
	s := &corev1.Secret{}
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
		return nil, err
	}
	if old, ok := s.Data[corev1.DockerConfigKey]; ok && s.Type == corev1.SecretTypeDockercfg {
		return old, nil
	}
	return s.Data[corev1.DockerConfigJsonKey], nil
}

// AccountPullSecrets implements Source.
func (c *Cluster) AccountPullSecrets(ctx context.Context, namespace, account string) ([]string, error) {
	a := &corev1.ServiceAccount{}
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: account}, a); err != nil {
		return nil, err
	}
	var names []string
	for _, ref := range a.ImagePullSecrets {
		names = append(names, ref.Name)
	}
	return names, nil
}
