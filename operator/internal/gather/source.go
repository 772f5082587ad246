// Package gather collects every fact that a decision needs, for all three gates in the
// same way: which Gates match, what they refer to, what the Workload renders to, and
// what the registry holds. The gates differ only in their Source.
package gather

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/images"
)

// Source reads Kubernetes objects: from files in the CLI, from the cluster elsewhere. An
// object that is not there is an apierrors NotFound error.
type Source interface {
	// Gates returns every Gate. With fresh the answer must not lag behind what was written.
	Gates(ctx context.Context, fresh bool) ([]v1beta1.Gate, error)
	// Exemptions returns every Exemption.
	Exemptions(ctx context.Context) ([]v1beta1.Exemption, error)
	// OwnNamespace is the operator's.
	OwnNamespace() string
	// Shared says that the namespaces are of people who must not hold up each other.
	Shared() bool
	// Now is the time that exemptions are held against.
	Now() time.Time
	// Namespace returns the labels of a namespace. With fresh the answer must not lag.
	Namespace(ctx context.Context, name string, fresh bool) (gate.Namespace, error)
	// ConfigMap returns the data of a ConfigMap that a Gate names.
	ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
	// Secret returns the data of a Secret that a Gate names.
	Secret(ctx context.Context, namespace, name string) (map[string][]byte, error)
	// RegistrySecret returns the docker config of a Secret that a Gate names to read policies
	// with; empty for what a registry is asked with anyway.
	RegistrySecret(ctx context.Context, namespace, name string) ([]byte, error)
	// PullSecret returns the docker config of an image pull Secret in a Workload's
	// namespace.
	PullSecret(ctx context.Context, namespace, name string) ([]byte, error)
	// AccountPullSecrets names the image pull Secrets of a ServiceAccount.
	AccountPullSecrets(ctx context.Context, namespace, account string) ([]string, error)
}

// matching returns those of the Gates whose selectors match a subject, by name.
func matching(gates []v1beta1.Gate, ns gate.Namespace, s *subject) ([]v1beta1.Gate, error) {
	var out []v1beta1.Gate
	for _, g := range gates {
		ok, err := matches(&g, ns.Labels, s.labels)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, g)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// judges says whether a Gate names a kind. A Gate that names none judges Workloads.
func judges(g *v1beta1.Gate, ref gate.ObjectRef) bool {
	if len(pathsFor(g, ref)) > 0 {
		return true
	}
	if !isWorkload(ref) && !images.PodBearing(ref.APIVersion, ref.Kind) {
		return false // a kind of the same name in another group
	}
	if len(g.Spec.Match.Kinds) == 0 {
		return isWorkload(ref)
	}
	return slices.Contains(g.Spec.Match.Kinds, v1beta1.JudgedKind(ref.Kind))
}

func isWorkload(ref gate.ObjectRef) bool {
	return images.Group(ref.APIVersion) == v1beta1.GroupVersion.Group && ref.Kind == v1beta1.WorkloadKind
}

// pathsFor is where a Gate says that objects of this kind have images.
func pathsFor(g *v1beta1.Gate, ref gate.ObjectRef) []string {
	var paths []string
	group := images.Group(ref.APIVersion)
	for _, p := range g.Spec.ImagePaths {
		if p.Group == group && p.Kind == ref.Kind {
			paths = append(paths, p.Paths...)
		}
	}
	return paths
}

// matches says whether a Gate judges a Workload with these labels in a namespace with
// those.
func matches(g *v1beta1.Gate, namespace, object map[string]string) (bool, error) {
	all := true
	for _, m := range []struct {
		path     string
		selector *metav1.LabelSelector
		labels   map[string]string
	}{
		{"spec.match.namespaceSelector", g.Spec.Match.NamespaceSelector, namespace},
		{"spec.match.objectSelector", g.Spec.Match.ObjectSelector, object},
	} {
		if m.selector == nil {
			continue
		}
		// Both are read even where the first decides: ValidateGate has to find a broken one.
		s, err := metav1.LabelSelectorAsSelector(m.selector)
		if err != nil {
			return false, fmt.Errorf("gate %s: %s: %w", g.Name, m.path, err)
		}
		all = all && s.Matches(labels.Set(m.labels))
	}
	return all, nil
}

// Files is a Source over objects that were read from files.
type Files struct {
	GateList      []v1beta1.Gate
	ExemptionList []v1beta1.Exemption
	// OperatorNamespace is that of the cluster which will be asked.
	OperatorNamespace string
	// Tenants says what Shared returns: false where all is somebody's own, as on the command
	// line.
	Tenants bool
	// Clock is the time; without one it is the machine's.
	Clock      func() time.Time
	Namespaces map[string]map[string]string
	// ConfigMaps and Secrets by namespace/name.
	ConfigMaps map[string]map[string]string
	Secrets    map[string]map[string][]byte

	mu      sync.Mutex
	missing map[string]bool
}

// Missing are the Secrets and ConfigMaps that were asked for and are in none of the files, as
// kind and namespace/name, in order.
func (f *Files) Missing() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.missing))
}

func (f *Files) miss(object string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.missing == nil {
		f.missing = map[string]bool{}
	}
	f.missing[object] = true
}

// Gates implements Source.
func (f *Files) Gates(context.Context, bool) ([]v1beta1.Gate, error) { return f.GateList, nil }

// Exemptions implements Source.
func (f *Files) Exemptions(context.Context) ([]v1beta1.Exemption, error) { return f.ExemptionList, nil }

// OwnNamespace implements Source.
func (f *Files) OwnNamespace() string { return f.OperatorNamespace }

// Shared implements Source.
func (f *Files) Shared() bool { return f.Tenants }

// Now implements Source.
func (f *Files) Now() time.Time { return tell(f.Clock) }

// Namespace implements Source.
func (f *Files) Namespace(_ context.Context, name string, _ bool) (gate.Namespace, error) {
	l, ok := f.Namespaces[name]
	if !ok {
		return gate.Namespace{}, notFound("namespaces", name)
	}
	return gate.Namespace{Name: name, Labels: l}, nil
}

// ConfigMap implements Source.
func (f *Files) ConfigMap(_ context.Context, namespace, name string) (map[string]string, error) {
	data, ok := f.ConfigMaps[namespace+"/"+name]
	if !ok {
		f.miss("ConfigMap " + namespace + "/" + name)
		return nil, notFound("configmaps", namespace+"/"+name)
	}
	return data, nil
}

// Secret implements Source.
func (f *Files) Secret(_ context.Context, namespace, name string) (map[string][]byte, error) {
	data, ok := f.Secrets[namespace+"/"+name]
	if !ok {
		f.miss("Secret " + namespace + "/" + name)
		return nil, notFound("secrets", namespace+"/"+name)
	}
	return data, nil
}

// RegistrySecret implements Source. As for images, it is the user's own docker login where
// the Secret is not at hand.
func (f *Files) RegistrySecret(_ context.Context, namespace, name string) ([]byte, error) {
	data, ok := f.Secrets[namespace+"/"+name]
	if !ok {
		return nil, nil
	}
	return dockerConfig(data, namespace, name)
}

// dockerConfig is that of a Secret, which has to have one.
func dockerConfig(data map[string][]byte, namespace, name string) ([]byte, error) {
	config, ok := data[corev1.DockerConfigJsonKey]
	if !ok {
		return nil, fmt.Errorf("Secret %s/%s has no key %q", namespace, name, corev1.DockerConfigJsonKey)
	}
	return config, nil
}

// PullSecret implements Source. In the pull request pull Secrets are not at hand; the
// user's own docker login is used instead, which an empty answer means.
func (f *Files) PullSecret(_ context.Context, namespace, name string) ([]byte, error) {
	return f.Secrets[namespace+"/"+name][".dockerconfigjson"], nil
}

// worded gives "there is none" the same words whatever Source says it: a cache, an API
// server and a list of files each have their own, and a verdict holds them.
type worded struct{ error }

func (worded) Error() string { return "it does not exist" }

func (w worded) Unwrap() error { return w.error }

func same(err error) error {
	if apierrors.IsNotFound(err) {
		return worded{err}
	}
	return err
}

// AccountPullSecrets implements Source.
func (f *Files) AccountPullSecrets(context.Context, string, string) ([]string, error) {
	return nil, nil
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

func tell(clock func() time.Time) time.Time {
	if clock == nil {
		return time.Now()
	}
	return clock()
}
