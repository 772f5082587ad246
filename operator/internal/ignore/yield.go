package ignore

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Drop returns a copy of an object without the fields.
func Drop(object map[string]any, paths []Path) map[string]any {
	out := (&unstructured.Unstructured{Object: object}).DeepCopy().Object
	for _, p := range paths {
		unstructured.RemoveNestedField(out, p...)
	}
	return out
}

// Yield returns a copy of want that has, at the paths, what live has or lacks: compared
// with live, or put in its place, it leaves those fields as they are.
func Yield(want, live *unstructured.Unstructured, paths []Path) *unstructured.Unstructured {
	if len(paths) == 0 {
		return want
	}
	out := &unstructured.Unstructured{Object: Drop(want.Object, paths)}
	for _, p := range paths {
		if value, found, err := unstructured.NestedFieldCopy(live.Object, p...); found && err == nil {
			// It fails where a parent is no map in want, and the paths go through maps.
			_ = unstructured.SetNestedField(out.Object, value, p...)
		}
	}
	return out
}

// Release returns a copy of want to be applied over live in the name of manager. At the
// paths it holds nothing that others own, so that they go on owning it alone, and nothing
// that the manager did not apply before. What only the manager applied would be gone if
// it were left out: it keeps its live value, and kept says so. Such a copy is only good
// for the version of live that it was made of.
func Release(want, live *unstructured.Unstructured, paths []Path, manager string) (out *unstructured.Unstructured, kept bool) {
	out = Yield(want, live, paths)
	r := owners(live, manager, len(paths) > 0)
	for _, p := range paths {
		value, found, err := unstructured.NestedFieldNoCopy(out.Object, p...)
		if !found || err != nil {
			continue
		}
		left, remains := r.release(value, p)
		if !remains {
			unstructured.RemoveNestedField(out.Object, p...)
			continue
		}
		kept = true
		_ = unstructured.SetNestedField(out.Object, left, p...)
	}
	return out, kept
}

// ownership is the field sets of managers, as the API server keeps them.
type ownership struct{ own, others []map[string]any }

func owners(live *unstructured.Unstructured, manager string, wanted bool) ownership {
	var out ownership
	if !wanted {
		return out
	}
	for _, e := range live.GetManagedFields() {
		var fields map[string]any
		if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.Raw, &fields) != nil {
			continue
		}
		switch {
		case e.Manager != manager:
			out.others = append(out.others, fields)
		case e.Operation == metav1.ManagedFieldsOperationApply:
			out.own = append(out.own, fields)
		}
	}
	return out
}

// release takes out of a value what is not to be applied; remains is false when nothing is
// left.
func (o ownership) release(value any, at Path) (left any, remains bool) {
	fields, isMap := value.(map[string]any)
	if !isMap || len(fields) == 0 {
		return value, owned(at, o.own) && !owned(at, o.others)
	}
	out := map[string]any{}
	for key, v := range fields {
		if l, ok := o.release(v, append(at[:len(at):len(at)], key)); ok {
			out[key] = l
		}
	}
	return out, len(out) > 0
}

// owned says whether one of the sets has the field, or a field that it is part of and that
// is owned as a whole.
func owned(at Path, sets []map[string]any) bool {
	for _, set := range sets {
		here, found := set, true
		for depth, key := range at {
			next, ok := here["f:"+key].(map[string]any)
			if !ok {
				found = depth > 0 && len(here) == 0
				break
			}
			here = next
		}
		if found {
			return true
		}
	}
	return false
}
