package gather

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/ignore"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// subject is what is judged: a Workload, or any other object that brings pods.
type subject struct {
	ref    gate.ObjectRef
	labels map[string]string
	// content is the object as every gate sees it.
	content map[string]any
	// children are what is looked at for images and policies: what a Workload renders to,
	// or the object itself.
	children []map[string]any
	// pullSecrets are named by the object, and account is the ServiceAccount that may name
	// more.
	pullSecrets []string
	account     string
	// secrets of the object, as it came.
	secrets *redact.Secrets
	// refused says what is wrong with the object itself.
	refused []gate.Finding
}

// ofWorkload renders a Workload. What is wrong with its spec becomes a refusal.
func ofWorkload(w *v1beta1.Workload) (*subject, error) {
	s := &subject{
		ref:    gate.ObjectRef{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.WorkloadKind, Name: w.Name, Namespace: w.Namespace},
		labels: w.Labels, account: w.Spec.ServiceAccountName,
	}
	for _, p := range w.Spec.ImagePullSecrets {
		s.pullSecrets = append(s.pullSecrets, p.Name)
	}
	var err error
	if s.content, err = normal(w); err != nil {
		return nil, err
	}
	_, refused := ignore.Parse(w.Spec.Drift)
	for _, r := range refused {
		s.refused = append(s.refused, gate.Finding{
			Policy: "drift", Severity: gate.SeverityHigh, Object: s.ref.String(), Path: r.Path, Message: r.Message,
			Remedy: "take the path out, or change the field in spec.patches, where the gate sees it",
		})
	}
	if s.children, err = render.Children(w); err != nil {
		s.refused = append(s.refused, notRendered(s.ref, err))
	}
	for _, child := range s.children { // a patch may name more
		s.pullSecrets = append(s.pullSecrets, pullSecretsOf(images.PodSpec(child))...)
	}
	s.secrets = Secrets(s.content, s.children...)
	return s, nil
}

// ofObject takes an object with pods as it is.
func ofObject(obj map[string]any, namespace string) *subject {
	text := func(from map[string]any, key string) string { v, _ := from[key].(string); return v }
	metadata, _ := obj["metadata"].(map[string]any)
	s := &subject{content: normalObject(obj, metadata), secrets: redact.SecretsOf(obj)}
	s.ref = gate.ObjectRef{APIVersion: text(obj, "apiVersion"), Kind: text(obj, "kind"), Namespace: namespace, Name: text(metadata, "name")}
	if s.ref.Name == "" {
		// The API server makes up the rest of the name after admission.
		s.ref.Name = text(metadata, "generateName")
	}
	if set, ok := metadata["labels"].(map[string]any); ok {
		s.labels = map[string]string{}
		for k := range set {
			s.labels[k] = text(set, k)
		}
	}
	s.children = []map[string]any{s.content}
	if pod := images.PodSpec(obj); pod != nil {
		// Without one the pods run as "default", and have its image pull Secrets.
		s.account = cmp.Or(text(pod, "serviceAccountName"), "default")
		s.pullSecrets = pullSecretsOf(pod)
	}
	return s
}

// pullSecretsOf a pod spec, which may be nil.
func pullSecretsOf(pod map[string]any) []string {
	var names []string
	refs, _ := pod["imagePullSecrets"].([]any)
	for _, r := range refs {
		ref, _ := r.(map[string]any)
		if name, ok := ref["name"].(string); ok && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// namespaced says whether the object is in a namespace, or ought to be: kinds that are
// not built in may have no namespace at all.
func (s *subject) namespaced() bool {
	return s.ref.Namespace != "" || isWorkload(s.ref) || images.PodBearing(s.ref.APIVersion, s.ref.Kind)
}

// normalObject drops status and what a server sets.
func normalObject(obj, metadata map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range obj {
		if k != "status" {
			out[k] = v
		}
	}
	kept := map[string]any{}
	for _, k := range []string{"name", "generateName", "namespace", "labels", "annotations", "ownerReferences"} {
		if v, ok := metadata[k]; ok {
			kept[k] = v
		}
	}
	if marks, ok := kept["annotations"].(map[string]any); ok {
		// What kubectl keeps there for itself is in no pull request.
		own := maps.Clone(marks)
		delete(own, corev1.LastAppliedConfigAnnotation)
		kept["annotations"] = own
		if len(own) == 0 {
			delete(kept, "annotations")
		}
	}
	out["metadata"] = kept
	return out
}

// collect finds the images of the children, also where the Gates say there are some.
func (s *subject) collect(gates []read) []gate.Image {
	if len(s.refused) > 0 {
		return nil
	}
	var paths []string
	for _, g := range gates {
		s.refused = append(s.refused, s.misled(g)...)
		paths = append(paths, g.paths...)
	}
	if len(s.refused) > 0 {
		return nil
	}
	slices.Sort(paths)
	found, err := images.Collect(s.children, slices.Compact(paths)...)
	if err != nil {
		s.refused = append(s.refused, notRendered(s.ref, err))
	}
	return found
}

// misled says which of a Gate's paths to images cannot be followed. One that admission
// refuses is in a Gate that was stored without it, or under an older one: what has to be
// corrected is the Gate.
func (s *subject) misled(g read) []gate.Finding {
	var out []gate.Finding
	for _, path := range g.paths {
		for _, child := range s.children {
			_, err := images.FindAt(child, path)
			if err == nil {
				continue
			}
			f := notRendered(s.ref, err)
			f.Message = fmt.Sprintf("spec.imagePaths of Gate %s has %s: %v", g.config.Name, path, err)
			f.Remedy = fmt.Sprintf("correct the field, or spec.imagePaths of Gate %s", g.config.Name)
			if err := images.ValidatePath(path); err != nil {
				f.Path, f.Message = "", fmt.Sprintf("spec.imagePaths of Gate %s: %v", g.config.Name, err)
				f.Remedy = fmt.Sprintf("correct spec.imagePaths of Gate %s", g.config.Name)
			}
			out = append(out, f)
		}
	}
	return out
}

func notRendered(object gate.ObjectRef, err error) gate.Finding {
	f := gate.Finding{
		Policy: "render", Severity: gate.SeverityHigh, Object: object.String(), Path: "spec",
		Message: err.Error(), Remedy: "run `sluice render` on the manifest and correct the field",
	}
	if field := new(render.FieldError); errors.As(err, &field) {
		f.Path, f.Message = field.Path, field.Err.Error()
	}
	return f
}

// normal is the Workload as every gate sees it: without status, which is never an input,
// and without what a server or a client tool adds to metadata.
func normal(w *v1beta1.Workload) (map[string]any, error) {
	clean := &v1beta1.Workload{Spec: w.Spec}
	clean.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	clean.Name, clean.Namespace, clean.Labels = w.Name, w.Namespace, w.Labels
	for k, v := range w.Annotations {
		if k == corev1.LastAppliedConfigAnnotation {
			continue
		}
		if clean.Annotations == nil {
			clean.Annotations = map[string]string{}
		}
		clean.Annotations[k] = v
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(clean)
	if err != nil {
		return nil, fmt.Errorf("workload %s/%s: %w", w.Namespace, w.Name, err)
	}
	delete(content, "status")
	return content, nil
}
