package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/kustomize"
)

// patched applies the Workload's patches with Kustomize. Without patches it returns the
// children as they are: a Kustomize build costs milliseconds and serialises the process.
func patched(w *v1beta1.Workload, children []map[string]any) ([]map[string]any, error) {
	if len(w.Spec.Patches) == 0 {
		return children, nil
	}
	fsys := filesys.MakeFsInMemory()
	k := types.Kustomization{TypeMeta: types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind}}
	for i, child := range children {
		name := "child-" + strconv.Itoa(i) + ".yaml"
		raw, err := json.Marshal(child)
		if err != nil {
			return nil, fmt.Errorf("render %s/%s: %w", w.Namespace, w.Name, err)
		}
		if err := fsys.WriteFile(name, raw); err != nil {
			return nil, fmt.Errorf("render %s/%s: %w", w.Namespace, w.Name, err)
		}
		k.Resources = append(k.Resources, name)
	}
	for _, p := range w.Spec.Patches {
		patch := types.Patch{Patch: p.Patch}
		if p.Target != nil {
			patch.Target = &types.Selector{ResId: resid.ResId{Gvk: resid.Gvk{Kind: p.Target.Kind}, Name: p.Target.Name}}
		}
		k.Patches = append(k.Patches, patch)
	}
	raw, err := yaml.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("render %s/%s: %w", w.Namespace, w.Name, err)
	}
	if err := fsys.WriteFile("kustomization.yaml", raw); err != nil {
		return nil, fmt.Errorf("render %s/%s: %w", w.Namespace, w.Name, err)
	}
	built, err := kustomize.Build(fsys, filesys.SelfDir)
	if err != nil {
		return nil, &PatchError{Err: err}
	}
	return contents(w, built)
}

// PatchError says that spec.patches do not apply.
type PatchError struct{ Err error }

func (e *PatchError) Error() string { return "spec.patches do not apply: " + e.Err.Error() }

func (e *PatchError) Unwrap() error { return e.Err }

// contents reads the build back and holds patches to their bounds: they change children,
// and cannot take them into another namespace or out of the operator's labels.
func contents(w *v1beta1.Workload, built resmap.ResMap) ([]map[string]any, error) {
	var out []map[string]any
	for _, res := range built.Resources() {
		raw, err := res.MarshalJSON()
		if err != nil {
			return nil, &PatchError{Err: err}
		}
		child := map[string]any{}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if err := dec.Decode(&child); err != nil {
			return nil, &PatchError{Err: err}
		}
		intNumbers(child)
		if err := withinBounds(w, res.GetNamespace(), res.GetLabels(), res.GetKind()+"/"+res.GetName()); err != nil {
			return nil, &PatchError{Err: err}
		}
		out = append(out, child)
	}
	return out, nil
}

func withinBounds(w *v1beta1.Workload, namespace string, labels map[string]string, child string) error {
	if namespace != w.Namespace {
		return fmt.Errorf("%s: a patch moved it to namespace %q; children stay in the Workload's namespace", child, namespace)
	}
	for _, key := range []string{LabelManagedBy, LabelInstance} {
		want := w.Name
		if key == LabelManagedBy {
			want = ManagedBy
		}
		if labels[key] != want {
			return fmt.Errorf("%s: a patch changed label %s to %q; it has to stay %q", child, key, labels[key], want)
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
