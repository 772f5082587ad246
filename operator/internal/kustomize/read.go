package kustomize

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resource"
)

// Read reads the objects of a resource file as a build does. It is no build: nothing of
// the process is read or changed, so that it may be called side by side.
func Read(raw []byte) (objects []*resource.Resource, err error) {
	defer func() {
		if p := recover(); p != nil {
			objects, err = nil, fmt.Errorf("kustomize: it gave up on this file: %v", p)
		}
	}()
	return provider.NewDefaultDepProvider().GetResourceFactory().SliceFromBytes(raw)
}
