package workload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/images"
)

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// reference is a Secret or ConfigMap that the pods use.
type reference struct {
	kind, name string
	// path of the first field that needs it, in the pods' controller.
	path string
	// optional says that the pods start without it.
	optional bool
}

// referencesOf lists what the pods' controller among the children refers to, whatever
// brought it there: the spec or a patch. Not listed are ConfigMaps that are children too,
// and pull Secrets, which no running pod sees. Pods of the backup are new each time.
func referencesOf(children []map[string]any) ([]reference, error) {
	found := map[[2]string]reference{}
	own := map[string]bool{}
	for _, content := range children {
		u := &unstructured.Unstructured{Object: content}
		if u.GetKind() == kindConfigMap {
			own[u.GetName()] = true
		}
		if primary([]*unstructured.Unstructured{u}) == nil {
			continue
		}
		spec := corev1.PodSpec{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(images.PodSpec(content), &spec); err != nil {
			return nil, about("read the pod template of", u.GetKind(), u, err)
		}
		visitReferences(&spec, func(r reference) {
			r.path = u.GetKind() + "/" + u.GetName() + " spec.template.spec." + r.path
			key := [2]string{r.kind, r.name}
			if known, ok := found[key]; r.name != "" && (!ok || known.optional && !r.optional) {
				found[key] = r
			}
		})
	}
	out := slices.DeleteFunc(slices.Collect(maps.Values(found)), func(r reference) bool { return r.kind == kindConfigMap && own[r.name] })
	slices.SortFunc(out, func(a, b reference) int { return cmp.Or(-cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	return out, nil
}

func visitReferences(spec *corev1.PodSpec, found func(reference)) {
	for i := range spec.InitContainers {
		visitContainer(&spec.InitContainers[i], fmt.Sprintf("initContainers[%d]", i), found)
	}
	for i := range spec.Containers {
		visitContainer(&spec.Containers[i], fmt.Sprintf("containers[%d]", i), found)
	}
	for i := range spec.Volumes {
		v, at := &spec.Volumes[i], fmt.Sprintf("volumes[%d]", i)
		if v.Secret != nil {
			found(reference{kindSecret, v.Secret.SecretName, at + ".secret", isTrue(v.Secret.Optional)})
		}
		if v.ConfigMap != nil {
			found(reference{kindConfigMap, v.ConfigMap.Name, at + ".configMap", isTrue(v.ConfigMap.Optional)})
		}
		if v.Projected == nil {
			continue
		}
		for j, source := range v.Projected.Sources {
			at := fmt.Sprintf("%s.projected.sources[%d]", at, j)
			if source.Secret != nil {
				found(reference{kindSecret, source.Secret.Name, at + ".secret", isTrue(source.Secret.Optional)})
			}
			if source.ConfigMap != nil {
				found(reference{kindConfigMap, source.ConfigMap.Name, at + ".configMap", isTrue(source.ConfigMap.Optional)})
			}
		}
	}
}

func visitContainer(c *corev1.Container, at string, found func(reference)) {
	for i, from := range c.EnvFrom {
		at := fmt.Sprintf("%s.envFrom[%d]", at, i)
		if from.SecretRef != nil {
			found(reference{kindSecret, from.SecretRef.Name, at, isTrue(from.SecretRef.Optional)})
		}
		if from.ConfigMapRef != nil {
			found(reference{kindConfigMap, from.ConfigMapRef.Name, at, isTrue(from.ConfigMapRef.Optional)})
		}
	}
	for i, env := range c.Env {
		at := fmt.Sprintf("%s.env[%d].valueFrom", at, i)
		if env.ValueFrom == nil {
			continue
		}
		if ref := env.ValueFrom.SecretKeyRef; ref != nil {
			found(reference{kindSecret, ref.Name, at, isTrue(ref.Optional)})
		}
		if ref := env.ValueFrom.ConfigMapKeyRef; ref != nil {
			found(reference{kindConfigMap, ref.Name, at, isTrue(ref.Optional)})
		}
	}
}

func isTrue(b *bool) bool { return b != nil && *b }

// waitForReferences holds back until every Secret and ConfigMap that the pods need is
// there, and notes what stands in them. Once the pods of this generation are there it only
// tells of what is missing, so that their drift is still put back.
func (r *Reconciler) waitForReferences(ctx context.Context, s *scope) error {
	references, err := referencesOf(s.judgement.Children)
	if err != nil {
		return unreadable("RenderFailed", err)
	}
	// Before anything is read: what changes from here on wakes the Workload.
	r.usage.set(client.ObjectKeyFromObject(s.workload), references)
	var missing []reference
	sum := sha256.New()
	for _, ref := range references {
		content, err := r.content(ctx, s.workload.Namespace, ref)
		if err != nil {
			return unreadable(ref.kind+"Unreadable", err)
		}
		if content == "" && !ref.optional {
			missing = append(missing, ref)
		}
		fmt.Fprintf(sum, "%s/%s %s\n", ref.kind, ref.name, content)
	}
	if len(missing) == 0 {
		if len(references) > 0 {
			s.seen = shortSum(sum)
		}
		return nil
	}
	s.incomplete = true
	lacking := absent(s.workload.Namespace, missing)
	if noted(s) != nil {
		s.lacking = lacking
		return nil
	}
	return lacking
}

func absent(namespace string, missing []reference) *obstacle {
	reason := reasonConfigMapMissing
	var names []string
	for _, m := range missing {
		if m.kind == kindSecret {
			reason = reasonSecretMissing
		}
		names = append(names, fmt.Sprintf("%s %s/%s (%s)", m.kind, namespace, m.name, m.path))
	}
	return &obstacle{kind: waiting, reason: reason, message: "what the pods need does not exist: " + strings.Join(names, ", ") + "; create it"}
}

// content is a hash of what a Secret or ConfigMap holds; empty when there is none. The
// object itself is read when its metadata say that it may have changed, and is not kept.
// Its UID goes into the hash: it is random and not known to those who may read the pods
// and not the Secret, so that they cannot try out what the hash is of.
func (r *Reconciler) content(ctx context.Context, namespace string, ref reference) (string, error) {
	key := client.ObjectKey{Namespace: namespace, Name: ref.name}
	about := Metadata(ref.kind)
	err := r.Names.Get(ctx, key, about)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get metadata of %s %s: %w", ref.kind, key, err)
	}
	if known, ok := r.usage.content(ref.kind, key); ok && known.uid == about.UID && !older(known.version, about.ResourceVersion) {
		return known.sum, nil
	}
	known, err := r.readContent(ctx, ref.kind, key)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get %s %s: %w", ref.kind, key, err)
	}
	r.usage.keep(ref.kind, key, known)
	return known.sum, nil
}

func (r *Reconciler) readContent(ctx context.Context, kind string, key client.ObjectKey) (held, error) {
	sum := sha256.New()
	if kind == kindConfigMap {
		c := &corev1.ConfigMap{}
		if err := r.Live.Get(ctx, key, c); err != nil {
			return held{}, err
		}
		fmt.Fprintf(sum, "%s\n", c.UID)
		addEntries(sum, c.Data)
		addEntries(sum, c.BinaryData)
		return held{uid: c.UID, version: c.ResourceVersion, sum: shortSum(sum)}, nil
	}
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, key, secret); err != nil {
		return held{}, err
	}
	fmt.Fprintf(sum, "%s\n", secret.UID)
	addEntries(sum, secret.Data)
	return held{uid: secret.UID, version: secret.ResourceVersion, sum: shortSum(sum)}, nil
}

// addEntries hashes a map so that no other map gives the same bytes.
func addEntries[V string | []byte](sum hash.Hash, data map[string]V) {
	fmt.Fprintf(sum, "%d entries\n", len(data))
	for _, name := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(sum, "%d:%s%d:", len(name), name, len(data[name]))
		sum.Write([]byte(data[name]))
	}
}

func shortSum(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)[:8]) }
