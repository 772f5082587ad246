package conversion

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	// portName is the port that v1alpha1 means where v1beta1 has several, and the name of
	// the one that it makes.
	portName = "http"
	// mountPath is where v1alpha1 mounts its volume.
	mountPath = "/data"
)

// fields is what v1alpha1 says of a spec. A value is nil where the field is absent; it
// has any type, since an object that the API server has on its way need not be valid.
type fields struct {
	image, replicas, port any
	persistent            bool
	storageSize           any
}

// fieldsOf reads a spec of v1alpha1.
func fieldsOf(spec map[string]any) fields {
	persistent, _ := spec["persistent"].(bool)
	return fields{image: spec["image"], replicas: spec["replicas"], port: spec["port"], persistent: persistent, storageSize: spec["storageSize"]}
}

// spec writes a spec of v1alpha1.
func (f fields) spec() map[string]any {
	out := map[string]any{"persistent": f.persistent}
	for key, value := range map[string]any{"image": f.image, "replicas": f.replicas, "port": f.port, "storageSize": f.storageSize} {
		set(out, key, value)
	}
	return out
}

// view reads of a spec of v1beta1 what v1alpha1 can say.
func view(spec map[string]any) fields {
	f := fields{image: spec["image"], replicas: spec["replicas"]}
	if port := portOf(spec); port != nil {
		f.port = port["port"]
	}
	if storage, ok := spec["storage"].(map[string]any); ok {
		f.persistent, f.storageSize = true, storage["size"]
	}
	return f
}

// put changes in a spec of v1beta1 the fields that differ, and nothing else: putting a
// spec's own view changes nothing.
func put(spec map[string]any, f fields) {
	before := view(spec)
	if !reflect.DeepEqual(before.image, f.image) {
		set(spec, "image", f.image)
	}
	if !reflect.DeepEqual(before.replicas, f.replicas) {
		set(spec, "replicas", f.replicas)
	}
	if !reflect.DeepEqual(before.port, f.port) {
		putPort(spec, f.port)
	}
	switch {
	case !f.persistent && before.persistent:
		delete(spec, "storage")
	case f.persistent && !before.persistent:
		storage := map[string]any{"mountPath": mountPath}
		set(storage, "size", f.storageSize)
		spec["storage"] = storage
	case f.persistent && !reflect.DeepEqual(before.storageSize, f.storageSize):
		set(spec["storage"].(map[string]any), "size", f.storageSize)
	}
}

// putPort changes the port that v1alpha1 means. Without one it is taken out, and the
// others stay.
func putPort(spec map[string]any, number any) {
	ports, _ := spec["ports"].([]any)
	at := portIndex(ports)
	switch {
	case number != nil && at >= 0:
		ports[at].(map[string]any)["port"] = number
	case number != nil:
		spec["ports"] = append(ports, map[string]any{"name": portName, "port": number, "protocol": string(corev1.ProtocolTCP)})
	case len(ports) == 1:
		delete(spec, "ports")
	case at >= 0:
		spec["ports"] = slices.Delete(ports, at, at+1)
	}
}

func portOf(spec map[string]any) map[string]any {
	ports, _ := spec["ports"].([]any)
	if at := portIndex(ports); at >= 0 {
		return ports[at].(map[string]any)
	}
	return nil
}

// portIndex is the port with the name http, or else the first; -1 where there is none.
func portIndex(ports []any) int {
	first := -1
	for i := range ports {
		port, ok := ports[i].(map[string]any)
		if ok && port["name"] == portName {
			return i
		}
		if ok && first < 0 {
			first = i
		}
	}
	return first
}

func set(into map[string]any, key string, value any) {
	if value == nil {
		delete(into, key)
		return
	}
	into[key] = value
}
