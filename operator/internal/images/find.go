package images

import (
	"fmt"
	"strings"
)

// Found is one place that names an image.
type Found struct {
	// Image as written; empty where the field is missing.
	Image string
	// Path of the field, such as spec.template.spec.containers[0].image.
	Path string
}

// podSpecs says where the built-in kinds keep their pod spec. Kinds of other API groups
// are not looked at, whatever they are called.
var podSpecs = map[string][]string{
	"/Pod":                   {"spec"},
	"/PodTemplate":           {"template", "spec"},
	"/ReplicationController": {"spec", "template", "spec"},
	"apps/Deployment":        {"spec", "template", "spec"},
	"apps/StatefulSet":       {"spec", "template", "spec"},
	"apps/DaemonSet":         {"spec", "template", "spec"},
	"apps/ReplicaSet":        {"spec", "template", "spec"},
	"batch/Job":              {"spec", "template", "spec"},
	"batch/CronJob":          {"spec", "jobTemplate", "spec", "template", "spec"},
}

var containerLists = []string{"initContainers", "containers", "ephemeralContainers"}

// Find returns every image that the object's pods would pull, in document order. It is
// an error if a field on the way has another shape than the API gives it: what cannot be
// read must not be taken for harmless.
func Find(obj map[string]any) ([]Found, error) {
	var found []Found
	err := visit(obj, func(holder map[string]any, field, path string) error {
		value, ok := holder[field]
		if !ok || value == nil {
			found = append(found, Found{Path: path})
			return nil
		}
		image, ok := value.(string)
		if !ok {
			return shapeError(path, "a string", value)
		}
		found = append(found, Found{Image: image, Path: path})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// PodBearing says whether Find looks into objects of this kind.
func PodBearing(apiVersion, kind string) bool {
	_, ok := podSpecs[Group(apiVersion)+"/"+kind]
	return ok
}

// PodSpec is the pod spec of an object with pods; nil for other kinds, and where it is
// not there or has another shape.
func PodSpec(obj map[string]any) map[string]any {
	apiVersion, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	way, ok := podSpecs[Group(apiVersion)+"/"+kind]
	if !ok {
		return nil
	}
	for _, field := range way {
		obj, _ = obj[field].(map[string]any)
	}
	return obj
}

// Group is the API group of an apiVersion, empty for the core group.
func Group(apiVersion string) string {
	g, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return g
}

// visit calls f for each field that names an image, with the map that holds it.
func visit(obj map[string]any, f func(holder map[string]any, field, path string) error) error {
	apiVersion, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	way, ok := podSpecs[Group(apiVersion)+"/"+kind]
	if !ok {
		return nil
	}
	spec, path := obj, ""
	for _, field := range way {
		path = join(path, field)
		next, err := mapOf(spec[field], path)
		if err != nil || next == nil {
			return err
		}
		spec = next
	}
	for _, list := range containerLists {
		if err := visitList(spec[list], join(path, list), func(c map[string]any, at string) error {
			return f(c, "image", join(at, "image"))
		}); err != nil {
			return err
		}
	}
	return visitList(spec["volumes"], join(path, "volumes"), func(v map[string]any, at string) error {
		image, err := mapOf(v["image"], join(at, "image"))
		if err != nil || image == nil {
			return err
		}
		return f(image, "reference", join(at, "image.reference"))
	})
}

func visitList(value any, path string, f func(item map[string]any, path string) error) error {
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		return shapeError(path, "a list", value)
	}
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		m, ok := item.(map[string]any)
		if !ok {
			return shapeError(at, "an object", item)
		}
		if err := f(m, at); err != nil {
			return err
		}
	}
	return nil
}

// mapOf returns nil for a field that is not there.
func mapOf(value any, path string) (map[string]any, error) {
	if value == nil {
		return nil, nil
	}
	m, ok := value.(map[string]any)
	if !ok {
		return nil, shapeError(path, "an object", value)
	}
	return m, nil
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func shapeError(path, want string, got any) error {
	is := "a number"
	switch got.(type) {
	case nil:
		is = "null"
	case string:
		is = "a string"
	case bool:
		is = "a boolean"
	case []any:
		is = "a list"
	case map[string]any:
		is = "an object"
	}
	return fmt.Errorf("%s has to be %s and is %s", path, want, is)
}
