package delta

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/api/v1/endpoints"
)

// normalised is an object as its type writes it (1000m as 1; without fields that are null
// or empty) and with the API server's defaults, in the values of encoding/json. Where it has
// fields that its type does not know, it stays as it is, with defaults added. Where it has
// a value that its type cannot hold, or is of a kind that is not Kubernetes's own, it
// stays as it is altogether: the API server refuses the one, and has no defaults here for
// the other. The object that is given is not changed.
func normalised(u *unstructured.Unstructured) (map[string]any, error) {
	object := u.DeepCopy().Object
	unstructured.RemoveNestedField(object, "metadata", "managedFields")
	unstructured.RemoveNestedField(object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	if typed, err := scheme.Scheme.New(u.GroupVersionKind()); err == nil {
		if object, err = inWordsOf(typed, object); err != nil {
			return nil, fmt.Errorf("normalise %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
		}
	}
	nameClaims(object)
	return asDecoded(object).(map[string]any), nil
}

// inWordsOf writes an object as its type does, of which typed is an empty one.
func inWordsOf(typed runtime.Object, object map[string]any) (map[string]any, error) {
	_, secret := typed.(*corev1.Secret)
	if secret {
		encodeStrings(object)
	}
	allKnown, ok := decode(object, typed)
	if !ok {
		return object, nil
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	out := object
	switch {
	case allKnown:
		kept, ok := keepKeys(object, before)
		if !ok {
			return object, nil
		}
		out = kept.(map[string]any)
	case secret && object["data"] != nil:
		out["data"] = before["data"] // there is more than one way to write base64
	}
	defaulters().Default(typed)
	//lint:ignore SA1019 Clusters have them.
	if e, ok := typed.(*corev1.Endpoints); ok && allKnown {
		endpoints.SortSubsets(e.Subsets) // their order means nothing
		return runtime.DefaultUnstructuredConverter.ToUnstructured(e)
	}
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	addDefaults(out, before, after)
	return out, nil
}

// decode reads an object into its type. allKnown is false where it has fields that the
// type does not know; ok is false where it has a value that the type cannot hold.
func decode(object map[string]any, typed runtime.Object) (allKnown, ok bool) {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, typed, true)
	if !runtime.IsStrictDecodingError(err) {
		return err == nil, err == nil
	}
	// The converter cuts a number off to what its field holds, see keepKeys; JSON does not.
	data, err := json.Marshal(object)
	return false, err == nil && kjson.Unmarshal(data, typed) == nil
}

// keepKeys is typed with the keys of object alone: a type also writes empty fields that
// nobody has set. ok is false where typed has another number than object.
func keepKeys(object, typed any) (kept any, ok bool) {
	switch o := object.(type) {
	case map[string]any:
		t, same := typed.(map[string]any)
		if !same {
			return typed, true
		}
		out := make(map[string]any, len(o))
		for key, value := range o {
			written, there := t[key]
			if !there && !isZero(value) {
				return nil, false
			}
			if !there {
				continue
			}
			if out[key], ok = keepKeys(value, written); !ok {
				return nil, false
			}
		}
		return out, true
	case []any:
		t, same := typed.([]any)
		if !same || len(t) != len(o) {
			return typed, true
		}
		out := make([]any, len(t))
		for i := range t {
			if out[i], ok = keepKeys(o[i], t[i]); !ok {
				return nil, false
			}
		}
		return out, true
	case int64:
		t, number := typed.(int64)
		return typed, !number || t == o
	case float64:
		t, number := typed.(int64)
		return typed, !number || float64(t) == o
	}
	return typed, true
}

// isZero says whether a value is no number, or 0. Another number that a type does not write
// is one that was cut off to 0.
func isZero(v any) bool {
	switch n := v.(type) {
	case int64:
		return n == 0
	case float64:
		return n == 0
	}
	return true
}

// addDefaults changes out as defaults changed before to after. They change what is in a
// list, and never its length.
func addDefaults(out, before, after map[string]any) {
	for key, now := range after {
		was, had := before[key]
		switch n := now.(type) {
		case map[string]any:
			if w, ok := was.(map[string]any); ok {
				addInMap(out, key, w, n)
				continue
			}
		case []any:
			w, ok := was.([]any)
			if o, same := out[key].([]any); ok && same && len(w) == len(n) && len(o) == len(n) {
				addInList(o, w, n)
				continue
			}
		}
		if !had || !reflect.DeepEqual(was, now) {
			out[key] = now
		}
	}
	for key := range before {
		if _, still := after[key]; !still {
			delete(out, key)
		}
	}
}

// addInMap is addDefaults below a key, which it adds where there is something to add.
func addInMap(out map[string]any, key string, before, after map[string]any) {
	o, ok := out[key].(map[string]any)
	if !ok {
		o = map[string]any{}
	}
	addDefaults(o, before, after)
	if ok || len(o) > 0 {
		out[key] = o
	}
}

func addInList(out, before, after []any) {
	for i := range out {
		o, isMap := out[i].(map[string]any)
		w, wasMap := before[i].(map[string]any)
		n, nowMap := after[i].(map[string]any)
		if isMap && wasMap && nowMap {
			addDefaults(o, w, n)
		} else if !reflect.DeepEqual(before[i], after[i]) {
			out[i] = after[i]
		}
	}
}

// encodeStrings moves a Secret's stringData to its data, as the API server does. What is no
// text stays what it is, for the type to refuse.
func encodeStrings(secret map[string]any) {
	data, _ := secret["data"].(map[string]any)
	if texts, ok := secret["stringData"].(map[string]any); ok {
		data = maps.Clone(data)
		if data == nil {
			data = map[string]any{}
		}
		for key, value := range texts {
			if text, ok := value.(string); ok {
				value = base64.StdEncoding.EncodeToString([]byte(text))
			}
			data[key] = value
		}
		secret["data"] = data
		delete(secret, "stringData")
	}
	for key, value := range data {
		if value == nil {
			data[key] = ""
		}
	}
}

// asDecoded has the values of encoding/json in place of those of the same JSON: float64 for
// each number, and U+FFFD for what is no UTF-8. It changes maps and lists in place.
func asDecoded(v any) any {
	switch t := v.(type) {
	case map[string]any:
		for key, x := range t {
			t[key] = asDecoded(x)
		}
	case []any:
		for i, x := range t {
			t[i] = asDecoded(x)
		}
	case int64:
		return float64(t)
	case uint64:
		return float64(t)
	case json.Number:
		if n, err := t.Float64(); err == nil {
			return n
		}
	case string:
		if !utf8.ValidString(t) {
			return string([]rune(t))
		}
	}
	return v
}
