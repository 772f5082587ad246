// Package schema validates manifests of Sluice's kinds the way the API server does, with
// the API server's own code: unknown fields, defaults, the structural schema and its CEL
// rules, all from the generated CRDs.
package schema

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"
)

// Set is the schemas of all kinds. It is safe for concurrent use.
type Set struct {
	kinds map[schema.GroupVersionKind]*definition
}

// definition is the schema of one version of a kind. It is compiled when it is first asked
// for: few are in one check.
type definition struct {
	version    apiextensionsv1.CustomResourceDefinitionVersion
	namespaced bool

	mu       sync.Mutex
	compiled *kind
}

func (d *definition) kind() (kind, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.compiled == nil {
		k, err := compile(d.version)
		if err != nil {
			return kind{}, err
		}
		k.namespaced = d.namespaced
		d.compiled = &k
	}
	return *d.compiled, nil
}

type kind struct {
	namespaced bool
	// status is a subresource: a create cannot set it.
	status     bool
	structural *structural.Structural
	validator  validation.SchemaValidator
	// sure answers for the validator where there is no doubt.
	sure *sure
	cel  *cel.Validator
}

// Load reads every CRD in files. What is wrong with a schema itself shows when an object of
// its kind comes.
func Load(files fs.FS) (*Set, error) {
	set := &Set{kinds: map[schema.GroupVersionKind]*definition{}}
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list CRDs: %w", err)
	}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read CRD: %w", err)
		}
		if err := set.add(raw); err != nil {
			return nil, fmt.Errorf("CRD %s: %w", name, err)
		}
	}
	return set, nil
}

func (s *Set) add(raw []byte) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		return err
	}
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		if version.Schema == nil {
			return fmt.Errorf("version %s has no schema", version.Name)
		}
		gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
		s.kinds[gvk] = &definition{version: version, namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped}
	}
	return nil
}

func compile(version apiextensionsv1.CustomResourceDefinitionVersion) (kind, error) {
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return kind{}, err
	}
	st, err := structural.NewStructural(&props)
	if err != nil {
		return kind{}, err
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return kind{}, err
	}
	return kind{
		status:     version.Subresources != nil && version.Subresources.Status != nil,
		structural: st, validator: validator, sure: compileRoot(st), cel: cel.NewValidator(st, true, celconfig.PerCallLimit),
	}, nil
}

// Forget drops what was compiled of a kind, some 2 MiB: it is compiled again when it is next
// asked for.
func (s *Set) Forget(gvk schema.GroupVersionKind) {
	if d, ok := s.kinds[gvk]; ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.compiled = nil
	}
}

// Admit returns a copy of the object with the schema's defaults set, or every reason why
// the API server would refuse to create it, each with its field path. Unknown fields are
// refused: a typo must not silently switch a setting off.
func (s *Set) Admit(ctx context.Context, obj map[string]any, gvk schema.GroupVersionKind) (map[string]any, field.ErrorList) {
	return s.AdmitChange(ctx, obj, nil, gvk)
}

// AdmitChange is Admit for an object that is there already, as old: the rules about what
// may not change count too, and a fault of a value that old has as well does not, by the
// API server's own measure. It was stored under older rules, and the change does not touch
// it. A nil old is a create.
func (s *Set) AdmitChange(ctx context.Context, obj, old map[string]any, gvk schema.GroupVersionKind) (map[string]any, field.ErrorList) {
	defined, ok := s.kinds[gvk]
	if !ok {
		return nil, field.ErrorList{field.NotSupported(field.NewPath("apiVersion"), gvk.String(), s.versions(gvk.Group))}
	}
	k, err := defined.kind()
	if err != nil {
		return nil, field.ErrorList{field.InternalError(field.NewPath("apiVersion"), fmt.Errorf("the schema of %s: %w", gvk, err))}
	}
	obj = runtime.DeepCopyJSON(obj)
	unknown := k.complete(obj)
	if old != nil {
		old = runtime.DeepCopyJSON(old)
		before := k.complete(old)
		unknown = slices.DeleteFunc(unknown, func(path string) bool { return slices.Contains(before, path) })
	}
	var errs field.ErrorList
	for _, path := range unknown {
		errs = append(errs, field.Invalid(field.NewPath(path), lastSegment(path), "unknown field"))
	}
	metadata, metaErrs := k.metadata(obj)
	errs = append(errs, metaErrs...)
	errs = append(errs, k.faults(obj, old)...)
	if len(errs) > 0 {
		// CEL rules may assume a valid shape: their errors would only repeat these.
		return nil, errs
	}
	obj["metadata"] = metadata
	if errs := k.broken(ctx, obj, old); len(errs) > 0 {
		return nil, errs
	}
	return obj, nil
}

// complete makes of an object what the server keeps of it: without unknown fields, whose
// paths it returns, and without status where that is written apart; and with the defaults.
func (k kind) complete(obj map[string]any) (unknown []string) {
	unknown = pruning.PruneWithOptions(obj, k.structural, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if k.status {
		delete(obj, "status")
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, k.structural)
	defaulting.Default(obj, k.structural)
	if k.status {
		delete(obj, "status") // its default, which is for who reads an object that has none
	}
	return unknown
}

// faults are what the schema has against an object, but for its CEL rules.
func (k kind) faults(obj, old map[string]any) field.ErrorList {
	if old == nil {
		errs := listtype.ValidateListSetsAndMaps(nil, k.structural, obj)
		if !k.sure.valid(obj) {
			errs = append(validation.ValidateCustomResource(nil, obj, k.validator), errs...)
		}
		return errs
	}
	var errs field.ErrorList
	if !k.sure.valid(obj) {
		errs = validation.ValidateCustomResourceUpdate(nil, obj, old, k.validator, validation.WithRatcheting(k.correlated(obj, old)))
	}
	if len(listtype.ValidateListSetsAndMaps(nil, k.structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, obj)...)
	}
	return errs
}

// broken are the CEL rules that an object breaks.
func (k kind) broken(ctx context.Context, obj, old map[string]any) field.ErrorList {
	if k.cel == nil {
		return nil
	}
	if old == nil {
		// An untyped nil: to the rules, a nil map is an object.
		errs, _ := k.cel.Validate(ctx, nil, k.structural, obj, nil, celconfig.RuntimeCELCostBudget)
		return errs
	}
	errs, _ := k.cel.Validate(ctx, nil, k.structural, obj, old, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(k.correlated(obj, old)))
	return errs
}

// correlated pairs each value of an object with the one that stood in its place before.
func (k kind) correlated(obj, old map[string]any) *common.CorrelatedObject {
	return common.NewCorrelatedObject(obj, old, &model.Structural{Structural: k.structural})
}

// metadata checks what no schema says: names and labels. It returns the metadata as the
// server keeps it: for a kind that is in no namespace without the one that Kustomize puts
// on whatever it does not know.
func (k kind) metadata(obj map[string]any) (map[string]any, field.ErrorList) {
	at := field.NewPath("metadata")
	raw, ok := obj["metadata"].(map[string]any)
	if !ok {
		return nil, field.ErrorList{field.Required(at, "an object has to have a name")}
	}
	meta := &metav1.ObjectMeta{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(raw, meta, true); err != nil {
		return nil, field.ErrorList{field.Invalid(at, "(not shown)", err.Error())}
	}
	if !k.namespaced {
		meta.Namespace = metav1.NamespaceNone
	}
	errs := apivalidation.ValidateObjectMeta(meta, k.namespaced, apivalidation.NameIsDNSSubdomain, at)
	kept, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return nil, append(errs, field.InternalError(at, err))
	}
	if kept["creationTimestamp"] == nil {
		delete(kept, "creationTimestamp")
	}
	return kept, errs
}

func (s *Set) versions(group string) []string {
	var out []string
	for gvk := range s.kinds {
		if gvk.Group == group {
			out = append(out, gvk.GroupVersion().String()+" "+gvk.Kind)
		}
	}
	sort.Strings(out)
	return out
}

func lastSegment(path string) string { return path[strings.LastIndex(path, ".")+1:] }
