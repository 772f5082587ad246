package delta

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Sides are two states of an object for showing them beside each other: normalised and
// defaulted as Compare does, and what means the same is written the same, as in old.
// Unlike in Compare neither is live, so that labels and annotations of either count, and
// apiVersion, kind, name and namespace stay.
func Sides(old, now *unstructured.Unstructured) (was, is map[string]any, err error) {
	if was, err = normalised(old); err != nil {
		return nil, nil, err
	}
	if is, err = normalised(now); err != nil {
		return nil, nil, err
	}
	for _, top := range []map[string]any{was, is} {
		delete(top, "status")
		metadata, _ := top["metadata"].(map[string]any)
		for _, set := range []string{"creationTimestamp", "uid", "resourceVersion", "generation", "managedFields", "selfLink", "ownerReferences", "finalizers"} {
			delete(metadata, set)
		}
	}
	prune(was)
	prune(is)
	align("", was, is)
	return was, is, nil
}

// Adopt lets live have what Compare does not count: it takes from it, and gives to desired,
// so that Sides shows no difference there.
func Adopt(desired, live *unstructured.Unstructured) (want, have *unstructured.Unstructured) {
	want, have = desired.DeepCopy(), live.DeepCopy()
	want.Object = Completed(want, have)
	keepOnly(want.Object, have.Object, "metadata", "labels")
	keepOnly(want.Object, have.Object, "metadata", "annotations")
	return want, have
}

// prune takes out what is empty, which means the same as nothing.
func prune(v any) bool {
	switch t := v.(type) {
	case map[string]any:
		for key, x := range t {
			if prune(x) && !selects[key] {
				delete(t, key)
			}
		}
	case []any:
		for _, x := range t {
			prune(x)
		}
	}
	return empty(v)
}

// selects are the fields where something empty is not nothing.
var selects = map[string]bool{"emptyDir": true, "podSelector": true, "namespaceSelector": true}

// align writes values of now as old has them, where they mean the same.
func align(path string, old, now any) any {
	switch n := now.(type) {
	case map[string]any:
		o, _ := old.(map[string]any)
		for key, value := range n {
			if was, ok := o[key]; ok {
				n[key] = align(join(path, key), was, value)
			}
		}
	case []any:
		o, _ := old.([]any)
		for i := range min(len(n), len(o)) {
			n[i] = align(path, o[i], n[i])
		}
	default:
		if old != nil && now != nil && same(path, old, now) {
			return old
		}
	}
	return now
}
