package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// takeOver moves what other managers own of a child's content (not of its metadata or
// status) to the operator. The next apply does not name those fields, so the API server
// removes them: this is how a container that someone added goes away again. The
// resource version makes it fail rather than undo a write that was not seen.
func (r *Reconciler) takeOver(ctx context.Context, live *unstructured.Unstructured) error {
	entries, err := takenOver(live.GetManagedFields())
	if err != nil {
		return fmt.Errorf("managed fields of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": live.GetResourceVersion(),
		"managedFields":   entries,
	}})
	if err != nil {
		return fmt.Errorf("managed fields of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	target := live.DeepCopy()
	if err := r.Client.Patch(ctx, target, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("take over fields of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	return nil
}

func takenOver(entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	var mine *metav1.ManagedFieldsEntry
	all := &fieldpath.Set{}
	var others []metav1.ManagedFieldsEntry
	for _, e := range entries {
		if e.Subresource != "" || e.FieldsV1 == nil {
			others = append(others, e)
			continue
		}
		if e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply {
			kept := e
			mine = &kept
			if err := union(&all, e.FieldsV1.Raw); err != nil {
				return nil, err
			}
			continue
		}
		content, rest, err := split(e.FieldsV1.Raw)
		if err != nil {
			return nil, err
		}
		if err := union(&all, content); err != nil {
			return nil, err
		}
		if len(rest) > 0 {
			e.FieldsV1 = &metav1.FieldsV1{Raw: rest}
			others = append(others, e)
		}
	}
	if mine == nil {
		return nil, fmt.Errorf("no entry of %s: the object was not applied by the operator", FieldManager)
	}
	raw, err := all.ToJSON()
	if err != nil {
		return nil, err
	}
	mine.FieldsV1 = &metav1.FieldsV1{Raw: raw}
	return append([]metav1.ManagedFieldsEntry{*mine}, others...), nil
}

func union(into **fieldpath.Set, raw []byte) error {
	set := &fieldpath.Set{}
	if err := set.FromJSON(bytes.NewReader(raw)); err != nil {
		return err
	}
	*into = (*into).Union(set)
	return nil
}

// split parts the fields of an entry into content and metadata; rest is empty when there
// is no metadata.
func split(raw []byte) (content, rest []byte, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, nil, err
	}
	metadata := map[string]json.RawMessage{}
	for _, key := range []string{"f:metadata", "f:status"} {
		if v, ok := fields[key]; ok {
			metadata[key] = v
			delete(fields, key)
		}
	}
	if content, err = json.Marshal(fields); err != nil {
		return nil, nil, err
	}
	if len(metadata) == 0 {
		return content, nil, nil
	}
	rest, err = json.Marshal(metadata)
	return content, rest, err
}
