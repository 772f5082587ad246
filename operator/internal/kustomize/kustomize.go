// Package kustomize is the one door to kustomize/api. The api keeps its OpenAPI schema
// in package variables: an overlay with an openapi field changes how every later build
// of the process merges lists, and two builds at once race. Here one build runs at a
// time, and each starts from the built-in schema.
package kustomize

import (
	"fmt"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

var door sync.Mutex

// Build builds the kustomization in folder of fsys. No plugin runs, whether exec,
// container or Helm, and files are only read below the kustomization that names them;
// keeping bases inside a root and refusing remote ones is the file system's and the
// caller's part.
func Build(fsys filesys.FileSystem, folder string) (resmap.ResMap, error) {
	door.Lock()
	defer door.Unlock()
	openapi.ResetOpenAPI()
	defer openapi.ResetOpenAPI()
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsRootOnly
	options.PluginConfig = types.DisabledPluginConfig()
	resources, err := krusty.MakeKustomizer(options).Run(fsys, folder)
	if err != nil {
		return nil, fmt.Errorf("kustomize build %s: %w", folder, err)
	}
	return resources, nil
}
