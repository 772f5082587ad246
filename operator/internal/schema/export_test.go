package schema

import (
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Defaulted is an object as it comes to validation.
func (s *Set) Defaulted(obj map[string]any, gvk schema.GroupVersionKind) map[string]any {
	obj = runtime.DeepCopyJSON(obj)
	delete(obj, "status")
	k, err := s.kinds[gvk].kind()
	if err != nil {
		panic(err)
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, k.structural)
	defaulting.Default(obj, k.structural)
	delete(obj, "status")
	return obj
}

// Both are the two answers to whether an object is valid, without unknown fields.
func (s *Set) Both(obj map[string]any, gvk schema.GroupVersionKind) (sure bool, errs field.ErrorList) {
	k, err := s.kinds[gvk].kind()
	if err != nil {
		panic(err)
	}
	pruning.Prune(obj, k.structural, true)
	return k.sure.valid(obj), validation.ValidateCustomResource(nil, obj, k.validator)
}
