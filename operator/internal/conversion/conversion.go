// Package conversion turns a Workload of one API version into the other without loss. It
// works on objects as they are in JSON: a type would drop the fields that it does not
// know, as while a newer CRD is there and an older operator still answers.
package conversion

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sluice-dev/sluice/operator/api/v1alpha1"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	manifests "github.com/sluice-dev/sluice/operator/internal/schema"
)

// Annotation of a v1alpha1 Workload holds its spec in v1beta1, as JSON, where v1alpha1
// cannot say all of it. No v1beta1 Workload has it.
const Annotation = "sluice.dev/v1beta1-spec"

// The status of a v1alpha1 Workload has in keyCarried what only v1beta1 says of it; and
// there in keyOmitted the size of a spec that no annotation can hold. That mark is not an
// annotation, since nobody but the operator writes status.
const (
	keyCarried = "v1beta1"
	keyOmitted = "omittedSpecBytes"
)

// statusFields of v1alpha1, and what became of them in v1beta1.
var statusFields = map[string]string{
	"observedGeneration": "observedGeneration", "phase": "phase", "conditions": "conditions", "selector": "selector",
	"replicas": "availableReplicas",
}

// Converter turns Workloads of one version into the other. It is safe for concurrent use.
type Converter struct {
	schemas *manifests.Set
	// base is the spec in v1beta1 that v1alpha1 means with an empty one: the defaults of
	// the fields that it does not have.
	base map[string]any
}

// New makes a Converter over the schemas of both versions.
func New(schemas *manifests.Set) (*Converter, error) {
	least := map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": v1beta1.WorkloadKind,
		"metadata": map[string]any{"name": "least", "namespace": "least"}, "spec": map[string]any{"image": "least"},
	}
	admitted, errs := schemas.Admit(context.Background(), least, v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	if len(errs) > 0 {
		return nil, fmt.Errorf("the defaults of a Workload: %w", errs.ToAggregate())
	}
	base := admitted["spec"].(map[string]any)
	put(base, fields{})
	return &Converter{schemas: schemas, base: base}, nil
}

// ToV1alpha1 returns a v1beta1 Workload in v1alpha1. There is none that it fails for: one
// object that cannot be converted would make every list fail.
func (c *Converter) ToV1alpha1(obj map[string]any) map[string]any {
	out := shallow(obj)
	out["apiVersion"] = v1alpha1.GroupVersion.String()
	status, hasStatus := statusToV1alpha1(obj["status"])
	annotate(out, "")
	if spec, ok := obj["spec"].(map[string]any); ok {
		seen := view(spec)
		out["spec"] = seen.spec()
		if carried := c.carried(spec, seen); carried != "" && !annotate(out, carried) {
			status, hasStatus = omitted(status, len(carried)), true
		}
	}
	if hasStatus {
		out["status"] = status
	}
	return out
}

// carried is the spec as JSON, or empty where its view says all of it.
func (c *Converter) carried(spec map[string]any, seen fields) string {
	implied := runtime.DeepCopyJSON(c.base)
	put(implied, seen)
	if reflect.DeepEqual(implied, spec) {
		return ""
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		panic("marshal what was unmarshalled from JSON: " + err.Error())
	}
	return string(raw)
}

// ToV1beta1 returns a v1alpha1 Workload in v1beta1. What the annotation holds comes back;
// a field of v1alpha1 that was changed meanwhile counts in its place.
//
// An annotation that was not made by ToV1alpha1 is left where it is, and means nothing:
// an error would let whoever planted it before v1beta1 was there make every list fail.
// Leftover refuses it at admission. The error is for a Workload that is too large.
func (c *Converter) ToV1beta1(obj map[string]any) (map[string]any, error) {
	out := shallow(obj)
	out["apiVersion"] = v1beta1.GroupVersion.String()
	status, mark := statusToV1beta1(obj["status"])
	if mark != nil {
		return nil, fmt.Errorf("the spec of this Workload takes %v bytes, more than an annotation holds: it can be read in %s, and written only in %s", mark, v1alpha1.GroupVersion, v1beta1.GroupVersion)
	}
	if status != nil {
		out["status"] = status
	}
	written, ok := obj["spec"].(map[string]any)
	if !ok {
		return out, nil
	}
	value, _ := notes(obj)[Annotation].(string)
	spec, err := parse(value)
	if err == nil && spec != nil {
		annotate(out, "")
	} else {
		spec = runtime.DeepCopyJSON(c.base)
	}
	put(spec, fieldsOf(written))
	out["spec"] = spec
	return out, nil
}

// parse reads an annotation; an empty one is no spec. It has to fit the type: the operator
// could read no Workload any more while there is one that does not.
func parse(value string) (map[string]any, error) {
	if value == "" {
		return nil, nil
	}
	var spec map[string]any
	if err := utiljson.Unmarshal([]byte(value), &spec); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if err := json.Unmarshal([]byte(value), &v1beta1.WorkloadSpec{}); err != nil {
		return nil, fmt.Errorf("not a spec of v1beta1: %w", err)
	}
	return spec, nil
}

// Leftover is why an object in v1beta1 must not have the annotation that it has; nil
// where it has none.
func Leftover(annotations map[string]string) *field.Error {
	value, ok := annotations[Annotation]
	if !ok {
		return nil
	}
	at := field.NewPath("metadata", "annotations").Key(Annotation)
	if _, err := parse(value); err != nil {
		return field.Invalid(at, "(not shown)", err.Error()+"; take it off: Sluice writes it, and it is not for editing")
	}
	return field.Forbidden(at, "belongs to a Workload in "+v1alpha1.GroupVersion.String()+", and its content is lost in this version; take it off")
}

// Admit is what becomes of a Workload of either version that is created: the object in
// v1beta1 with its defaults, or every reason why the API server or admission would refuse
// it.
func (c *Converter) Admit(ctx context.Context, obj map[string]any, gvk schema.GroupVersionKind) (map[string]any, field.ErrorList) {
	obj, errs := c.schemas.Admit(ctx, obj, gvk)
	if len(errs) > 0 {
		return nil, errs
	}
	if gvk.Version == v1alpha1.GroupVersion.Version {
		converted, err := c.ToV1beta1(obj)
		if err != nil {
			return nil, field.ErrorList{field.InternalError(nil, err)}
		}
		obj = converted
	}
	if value, ok := notes(obj)[Annotation].(string); ok {
		return nil, field.ErrorList{Leftover(map[string]string{Annotation: value})}
	}
	if gvk.Version == v1beta1.GroupVersion.Version {
		return obj, nil // it was held against this very schema
	}
	return c.schemas.Admit(ctx, obj, v1beta1.GroupVersion.WithKind(gvk.Kind))
}

// Written is what is wrong with a v1beta1 object that was written in another version: the
// API server has held what was written against that version's schema, and what came out
// of the conversion against none. old is nil when it is created. What is wrong with a value
// that the change leaves as it is counts for nothing, as in v1beta1.
//
// A change may be one of v1alpha1's own fields only. Anything else comes of an annotation
// that was edited, is from before, or was left out; and the API server would not count it
// as a new generation of the object.
func (c *Converter) Written(ctx context.Context, obj, old map[string]any) field.ErrorList {
	spec, ok := obj["spec"].(map[string]any)
	before, okOld := old["spec"].(map[string]any)
	if ok && okOld && reflect.DeepEqual(before, spec) {
		return nil // what was stored under older rules can be labelled, as in v1beta1
	}
	_, errs := c.schemas.AdmitChange(ctx, obj, old, v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	if !ok || !okOld {
		return errs
	}
	wanted := runtime.DeepCopyJSON(before)
	put(wanted, view(spec))
	if !reflect.DeepEqual(wanted, spec) {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(Annotation),
			"this would change what only "+v1beta1.GroupVersion.String()+" can say of the Workload: leave the annotation as it is, or out of what you apply, and make the change in "+v1beta1.GroupVersion.String()))
	}
	return errs
}

func statusToV1alpha1(from any) (map[string]any, bool) {
	status, ok := from.(map[string]any)
	if !ok {
		return nil, false
	}
	out, rest := map[string]any{}, maps.Clone(status)
	for as, key := range statusFields {
		if value, ok := status[key]; ok {
			out[as] = value
			delete(rest, key)
		}
	}
	if len(rest) > 0 {
		out[keyCarried] = rest
	}
	return out, true
}

// statusToV1beta1 also returns the mark of a spec that is not there, or nil.
func statusToV1beta1(from any) (status map[string]any, mark any) {
	old, ok := from.(map[string]any)
	if !ok {
		return nil, nil
	}
	status = map[string]any{}
	if carried, ok := old[keyCarried].(map[string]any); ok {
		status, mark = maps.Clone(carried), carried[keyOmitted]
	}
	for key, as := range statusFields {
		if value, ok := old[key]; ok {
			status[as] = value
		}
	}
	return status, mark
}

// omitted marks that the spec is not there.
func omitted(status map[string]any, size int) map[string]any {
	if status == nil {
		status = map[string]any{}
	}
	carried, ok := status[keyCarried].(map[string]any)
	if !ok {
		carried = map[string]any{}
		status[keyCarried] = carried
	}
	carried[keyOmitted] = int64(size)
	return status
}

// shallow copies an object and its metadata, which is what is changed in place.
func shallow(obj map[string]any) map[string]any {
	out := maps.Clone(obj)
	if meta, ok := obj["metadata"].(map[string]any); ok {
		out["metadata"] = maps.Clone(meta)
	}
	return out
}

// notes are an object's annotations.
func notes(obj map[string]any) map[string]any {
	meta, _ := obj["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	return annotations
}

// annotate sets the annotation on a shallow copy, or takes it off with an empty value. It
// says whether the API server would take all annotations together.
func annotate(obj map[string]any, value string) bool {
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	before := notes(obj)
	if _, has := before[Annotation]; value == "" && !has {
		return true
	}
	annotations := map[string]any{}
	sizes := map[string]string{Annotation: value}
	for key, v := range before {
		if key != Annotation {
			annotations[key] = v
			sizes[key], _ = v.(string)
		}
	}
	if value != "" {
		if apivalidation.ValidateAnnotationsSize(sizes) != nil {
			return false
		}
		annotations[Annotation] = value
	}
	meta["annotations"] = annotations
	if len(annotations) == 0 {
		delete(meta, "annotations")
	}
	return true
}
