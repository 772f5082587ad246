package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/resid"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/kustomize"
)

// FieldError says which field of a Workload makes children that cannot be, or cannot run.
type FieldError struct {
	// Path of the field, such as spec.patches[0].
	Path string
	Err  error
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Err.Error() }

func (e *FieldError) Unwrap() error { return e.Err }

// patched applies the Workload's patches with Kustomize. Without patches it returns the
// children as they are: a Kustomize build costs milliseconds and serialises the process.
func patched(w *v1beta1.Workload, children []map[string]any) ([]map[string]any, error) {
	if len(w.Spec.Patches) == 0 {
		return children, nil
	}
	k := types.Kustomization{TypeMeta: types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind}}
	var err error
	if k.Patches, err = patches(w, children); err != nil {
		return nil, err
	}
	fsys := filesys.MakeFsInMemory()
	for i, child := range children {
		name := "child-" + strconv.Itoa(i) + ".json"
		k.Resources = append(k.Resources, name)
		if err := store(fsys, name, child); err != nil {
			return nil, fmt.Errorf("render %s/%s: %w", w.Namespace, w.Name, err)
		}
	}
	if err := store(fsys, "kustomization.yaml", k); err != nil {
		return nil, fmt.Errorf("render %s/%s: %w", w.Namespace, w.Name, err)
	}
	built, err := kustomize.Build(fsys, filesys.SelfDir, nil)
	if err != nil {
		return nil, &FieldError{Path: patchesPath, Err: err}
	}
	return contents(w, children, built)
}

const patchesPath = "spec.patches"

func store(fsys filesys.FileSystem, name string, content any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return fsys.WriteFile(name, raw)
}

// patches gives each patch its target, and refuses one that changes nothing: a patch that
// is silently without effect, for a typo in a name, is how hardening gets lost.
func patches(w *v1beta1.Workload, children []map[string]any) ([]types.Patch, error) {
	out := make([]types.Patch, 0, len(w.Spec.Patches))
	renamed := false
	for i, p := range w.Spec.Patches {
		target, err := selector(w, p)
		if err == nil && !renamed && !matches(target, children) {
			if withoutBudget(w) && matches(target, []map[string]any{{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": map[string]any{"name": w.Name}}}) {
				// The budget goes when the Workload is scaled to one replica, and scaling must not
				// fail for it.
				continue
			}
			err = errors.New("it matches none of the children; `sluice render` shows them")
		}
		if err != nil {
			return nil, &FieldError{Path: fmt.Sprintf("%s[%d]", patchesPath, i), Err: err}
		}
		// Later patches may name what this one makes of a name.
		renamed = renamed || strings.Contains(p.Patch, "/metadata/name")
		out = append(out, types.Patch{Patch: p.Patch, Target: target})
	}
	return out, nil
}

// selector is the children that a patch is for: its target, or the object that a merge
// patch names.
func selector(w *v1beta1.Workload, p v1beta1.Patch) (*types.Selector, error) {
	content, err := single(p.Patch)
	if err != nil {
		return nil, err
	}
	target := targetOf(p)
	if content.Kind == kyaml.SequenceNode {
		if target == nil {
			return nil, errors.New("a list of JSON 6902 operations needs a target")
		}
		return target, nil
	}
	var object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   struct {
			Name      string `yaml:"name"`
			Namespace string `yaml:"namespace"`
		} `yaml:"metadata"`
	}
	if err := content.Decode(&object); err != nil {
		return nil, fmt.Errorf("it is not the patch of an object: %w", err)
	}
	if object.APIVersion == "" || object.Kind == "" || object.Metadata.Name == "" {
		return nil, errors.New("a merge patch has to have apiVersion, kind and metadata.name, also where a target selects")
	}
	if target != nil {
		return target, nil
	}
	if ns := object.Metadata.Namespace; ns != "" && ns != w.Namespace {
		return nil, fmt.Errorf("it is for namespace %q; children are in the Workload's namespace", ns)
	}
	group, version := resid.ParseGroupVersion(object.APIVersion)
	return &types.Selector{ResId: resid.ResId{
		Gvk:  resid.Gvk{Group: regexp.QuoteMeta(group), Version: regexp.QuoteMeta(version), Kind: regexp.QuoteMeta(object.Kind)},
		Name: regexp.QuoteMeta(object.Metadata.Name),
	}}, nil
}

func targetOf(p v1beta1.Patch) *types.Selector {
	if p.Target == nil {
		return nil
	}
	return &types.Selector{ResId: resid.ResId{Gvk: resid.Gvk{Kind: p.Target.Kind}, Name: p.Target.Name}}
}

// single is the one document of a patch.
func single(patch string) (*kyaml.Node, error) {
	if err := kustomize.CheckAliases([]byte(patch)); err != nil {
		return nil, err
	}
	decoder := kyaml.NewDecoder(strings.NewReader(patch))
	var document, second kyaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document: make each a patch of its own")
	}
	content := document.Content[0]
	if content.Kind != kyaml.MappingNode && content.Kind != kyaml.SequenceNode {
		return nil, errors.New("neither a merge patch nor a list of JSON 6902 operations")
	}
	return content, nil
}

func matches(target *types.Selector, children []map[string]any) bool {
	s, err := types.NewSelectorRegex(target)
	if err != nil {
		return false
	}
	for _, child := range children {
		apiVersion, _ := child["apiVersion"].(string)
		kind, _ := child["kind"].(string)
		meta, _ := child["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		group, version := resid.ParseGroupVersion(apiVersion)
		if s.MatchGvk(resid.Gvk{Group: group, Version: version, Kind: kind}) && s.MatchName(name) {
			return true
		}
	}
	return false
}

// contents reads the build back and holds patches to their bounds: they change children,
// and cannot turn them into other kinds or take them into another namespace or out of the
// operator's labels. The operator would apply what they made with its own rights.
func contents(w *v1beta1.Workload, before []map[string]any, built resmap.ResMap) ([]map[string]any, error) {
	kinds := map[string]bool{}
	for _, child := range before {
		kinds[kindOf(child)] = true
	}
	var out []map[string]any
	for _, res := range built.Resources() {
		child, err := readBack(res)
		if err != nil {
			return nil, &FieldError{Path: patchesPath, Err: err}
		}
		name := res.GetKind() + "/" + res.GetName()
		err = withinBounds(w, res.GetNamespace(), res.GetLabels(), name)
		switch {
		case !kinds[kindOf(child)]:
			err = fmt.Errorf("%s: a patch made it a %v %v; children keep their kind", name, child["apiVersion"], child["kind"])
		case err == nil:
			err = wellFormed(w, child, name)
		}
		if err != nil {
			return nil, &FieldError{Path: patchesPath, Err: err}
		}
		out = append(out, child)
	}
	if !runs(out) {
		return nil, &FieldError{Path: patchesPath, Err: errors.New("a patch deletes what runs the pods; set spec.replicas to 0 or delete the Workload instead")}
	}
	return out, nil
}

func kindOf(child map[string]any) string { return fmt.Sprint(child["apiVersion"], " ", child["kind"]) }

func readBack(res *resource.Resource) (map[string]any, error) {
	raw, err := res.MarshalJSON()
	if err != nil {
		return nil, err
	}
	child := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&child); err != nil {
		return nil, err
	}
	intNumbers(child)
	return child, nil
}

// wellFormed refuses what the API server would refuse or ignore once every gate has let it
// pass: a field that there is not, such as securitycontext, and metadata that is the API
// server's or the operator's to set. A finalizer, on a child or its pods, would keep the
// Workload from being deleted, and a resource version would make each apply a conflict. A
// note of the operator's would be taken for one that it made: that the pods were scaled to
// zero, or are a canary's.
func wellFormed(w *v1beta1.Workload, child map[string]any, name string) error {
	for _, path := range metadataPaths {
		metadata, _, err := unstructured.NestedMap(child, path...)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, field := range slices.Sorted(maps.Keys(metadata)) {
			at := strings.Join(path, ".") + "." + field
			switch field {
			case "name", "namespace":
			case "labels", "annotations":
				if err := reserved(w, metadata[field], name, at); err != nil {
					return err
				}
			default:
				return fmt.Errorf("%s: a patch sets %s; of metadata, patches may change name, labels and annotations", name, at)
			}
		}
	}
	if runs([]map[string]any{child}) {
		// By it the Deployment of a canary is told from the Workload's own.
		path := []string{"spec", "selector", "matchLabels"}
		selected, _, err := unstructured.NestedMap(child, path...)
		if err == nil {
			err = reserved(w, selected, name, strings.Join(path, "."))
		}
		if err != nil {
			return err
		}
	}
	if _, ok := child["status"]; ok {
		return fmt.Errorf("%s: a patch sets status, which is not the spec's to say", name)
	}
	into, ok := blank[kindOf(child)]
	if !ok {
		return fmt.Errorf("%s: %s is no kind that a Workload renders to", name, kindOf(child))
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(child, into(), true); err != nil {
		return fmt.Errorf("%s: what the patches make of it is no %v: %w", name, child["kind"], err)
	}
	return nil
}

// ownPrefix is what the operator's labels and annotations start with.
const ownPrefix = "sluice.dev/"

// reserved refuses labels or annotations that are the operator's own. The tenant has to be
// the Workload's, which policies look at.
func reserved(w *v1beta1.Workload, marks any, name, at string) error {
	m, _ := marks.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		switch {
		case key == labelTenant && m[key] == w.Spec.Tenant:
		case key == labelTenant:
			return fmt.Errorf("%s: a patch sets %s.%s to another tenant than spec.tenant, which alone says it", name, at, key)
		case strings.HasPrefix(key, ownPrefix):
			return fmt.Errorf("%s: a patch sets %s.%s; what starts with %s is the operator's to set", name, at, key, ownPrefix)
		}
	}
	return nil
}

// metadataPaths are where a child has metadata: its own and that of what it makes.
var metadataPaths = [][]string{
	{"metadata"},
	{"spec", "template", "metadata"},
	{"spec", "jobTemplate", "metadata"},
	{"spec", "jobTemplate", "spec", "template", "metadata"},
}

// blank makes an empty object of each kind that a Workload renders to.
var blank = map[string]func() any{
	"v1 ServiceAccount":                  func() any { return &corev1.ServiceAccount{} },
	"v1 ConfigMap":                       func() any { return &corev1.ConfigMap{} },
	"v1 Service":                         func() any { return &corev1.Service{} },
	"networking.k8s.io/v1 NetworkPolicy": func() any { return &networkingv1.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":      func() any { return &policyv1.PodDisruptionBudget{} },
	"apps/v1 Deployment":                 func() any { return &appsv1.Deployment{} },
	"apps/v1 StatefulSet":                func() any { return &appsv1.StatefulSet{} },
	"batch/v1 CronJob":                   func() any { return &batchv1.CronJob{} },
}

// runs says whether the pods' controller is among the children.
func runs(children []map[string]any) bool {
	return slices.ContainsFunc(children, func(c map[string]any) bool {
		return c["kind"] == "Deployment" || c["kind"] == "StatefulSet"
	})
}

func withinBounds(w *v1beta1.Workload, namespace string, labels map[string]string, child string) error {
	if namespace != w.Namespace {
		return fmt.Errorf("%s: a patch moved it to namespace %q; children stay in the Workload's namespace", child, namespace)
	}
	for _, label := range [][2]string{{LabelManagedBy, ManagedBy}, {LabelInstance, w.Name}} {
		if got := labels[label[0]]; got != label[1] {
			return fmt.Errorf("%s: a patch changed label %s to %q; it has to stay %q", child, label[0], got, label[1])
		}
	}
	return nil
}

// intNumbers turns json.Number into the int64 and float64 that unstructured objects hold.
func intNumbers(v any) any {
	switch t := v.(type) {
	case map[string]any:
		for k, x := range t {
			t[k] = intNumbers(x)
		}
	case []any:
		for i, x := range t {
			t[i] = intNumbers(x)
		}
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n
		}
		f, _ := t.Float64()
		return f
	}
	return v
}
