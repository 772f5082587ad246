package images

import (
	"fmt"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Collect returns the images of all children, one entry for each reference as written,
// in order of first appearance. What has to come from a registry is left empty. A
// reference that does not parse is no error: it comes back with Invalid set, so that the
// decision can name it. Errors are shapes that Find cannot read, and more than
// limits.ImagesPerObject references.
//
// paths name further fields with images, as FindAt reads them, in every child.
func Collect(children []map[string]any, paths ...string) ([]gate.Image, error) {
	var collected []gate.Image
	index := map[string]int{}
	for _, child := range children {
		object := ObjectName(child)
		found, err := findAll(child, paths)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object, err)
		}
		for _, f := range found {
			i, ok := index[f.Image]
			if !ok {
				if len(collected) == limits.ImagesPerObject {
					return nil, fmt.Errorf("%s: %s: more than %d different images (limits.ImagesPerObject)",
						object, f.Path, limits.ImagesPerObject)
				}
				i = len(collected)
				index[f.Image] = i
				collected = append(collected, newImage(f.Image))
			}
			collected[i].Locations = append(collected[i].Locations, gate.Location{Object: object, Path: f.Path})
		}
	}
	return collected, nil
}

func findAll(child map[string]any, paths []string) ([]Found, error) {
	found, err := Find(child)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		more, err := FindAt(child, path)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

func newImage(ref string) gate.Image {
	image := gate.Image{Ref: ref}
	parsed, err := Parse(ref)
	if err != nil {
		image.Invalid = err.Error()
		return image
	}
	image.Repository, image.Tag = parsed.Repository, parsed.Tag
	image.Pinned, image.Digest = parsed.Pinned(), parsed.Digest
	return image
}

// ObjectName is Kind/namespace/name. An object that is still to be named goes by its
// metadata.generateName.
func ObjectName(obj map[string]any) string {
	kind, _ := obj["kind"].(string)
	meta, _ := obj["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if name == "" {
		name, _ = meta["generateName"].(string)
	}
	namespace, _ := meta["namespace"].(string)
	return gate.ObjectRef{Kind: kind, Name: name, Namespace: namespace}.String()
}

// Pin returns a deep copy of the children in which each image that digests has an entry
// for, by its reference as written, is named by that digest and no tag: what was verified
// is what the node pulls. The registry stays as its author wrote it, so that mirrors
// configured on nodes still apply. Children that Collect refuses are copied as they are.
func Pin(children []map[string]any, digests map[string]string) []map[string]any {
	pinned := make([]map[string]any, len(children))
	for i, child := range children {
		pinned[i] = copyMap(child)
		if _, err := Find(child); err != nil {
			continue
		}
		_ = visit(pinned[i], func(holder map[string]any, field, _ string) error {
			ref, _ := holder[field].(string)
			if want, ok := digests[ref]; ok {
				holder[field] = pinnedRef(ref, want)
			}
			return nil
		})
	}
	return pinned
}

func pinnedRef(ref, want string) string {
	parsed, err := Parse(ref)
	if err != nil {
		return ref
	}
	written := ref
	if parsed.Pinned() {
		written = ref[:len(ref)-len(parsed.Digest)-1]
	}
	repository, _ := splitTag(written)
	return repository + "@" + want
}

func copyMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = copyValue(v)
	}
	return out
}

func copyValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return copyMap(v)
	case []any:
		if v == nil {
			return v
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = copyValue(v[i])
		}
		return out
	}
	return v
}
