// Package oldrules has an API server store an object as it was stored before a rule of its
// schema was there. It is apart from testkit, whose programs are not to need its clients.
package oldrules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	patience = 30 * time.Second
	poll     = 20 * time.Millisecond
)

// rules are the keywords that say which values of its type a field takes. Upper bounds
// stay: what the rules of the whole object may cost is reckoned by them.
var rules = []string{"pattern", "enum", "minimum", "minLength", "minItems", "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"}

// Store creates an object whose spec the rules of its CRD refuse, by its name and in the
// version that it is stored in. While it does, spec is held to its types alone. Afterwards
// the rules are in force again. It fails where they refuse nothing of the object.
func Store(ctx context.Context, api client.Client, definition string, object client.Object) (err error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := api.Get(ctx, client.ObjectKey{Name: definition}, crd); err != nil {
		return err
	}
	path, spec, err := specOf(crd, object.GetObjectKind().GroupVersionKind().Version)
	if err != nil {
		return err
	}
	lenient := (&unstructured.Unstructured{Object: spec}).DeepCopy().Object
	without(lenient)
	if err := put(ctx, api, crd, path, lenient); err != nil {
		return err
	}
	created := poller(ctx, func(ctx context.Context) (bool, error) {
		err := api.Create(ctx, object)
		return err == nil, passing(err)
	})
	if err := put(ctx, api, crd, path, spec); err != nil {
		return errors.Join(created, err)
	}
	if created != nil {
		return fmt.Errorf("create %s without the rules: %w", object.GetName(), created)
	}
	if err := poller(ctx, func(ctx context.Context) (bool, error) {
		again := object.DeepCopyObject().(client.Object)
		again.SetName(object.GetName() + "-again")
		again.SetResourceVersion("")
		again.SetUID("")
		err := api.Create(ctx, again, client.DryRunAll)
		return apierrors.IsInvalid(err), passing(err)
	}); err != nil {
		return fmt.Errorf("the rules refuse nothing of %s: %w", object.GetName(), err)
	}
	return nil
}

// passing is no error where the API server may answer otherwise in a moment.
func passing(err error) error {
	if apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

func poller(ctx context.Context, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, poll, patience, true, done)
}

// specOf finds the schema of spec in a version, and its path in the CRD.
func specOf(crd *unstructured.Unstructured, version string) (path string, spec map[string]any, err error) {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return "", nil, err
	}
	for i, v := range versions {
		of, ok := v.(map[string]any)
		if !ok || of["name"] != version {
			continue
		}
		spec, ok, err := unstructured.NestedMap(of, "schema", "openAPIV3Schema", "properties", "spec")
		if err == nil && !ok {
			err = fmt.Errorf("%s has no schema of spec in %s", crd.GetName(), version)
		}
		return fmt.Sprintf("/spec/versions/%d/schema/openAPIV3Schema/properties/spec", i), spec, err
	}
	return "", nil, fmt.Errorf("%s has no version %q", crd.GetName(), version)
}

// put replaces a part of a CRD, and nothing that somebody else writes meanwhile.
func put(ctx context.Context, api client.Client, crd *unstructured.Unstructured, path string, value any) error {
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": path, "value": value}})
	if err != nil {
		return err
	}
	return api.Patch(ctx, crd.DeepCopy(), client.RawPatch(types.JSONPatchType, patch))
}

// without takes the rules out of a schema and of all within.
func without(of map[string]any) {
	for _, rule := range rules {
		delete(of, rule)
	}
	if properties, ok := of["properties"].(map[string]any); ok {
		for _, property := range properties {
			if property, ok := property.(map[string]any); ok {
				without(property)
			}
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if within, ok := of[key].(map[string]any); ok {
			without(within)
		}
	}
}
