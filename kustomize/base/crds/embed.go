// Package crds embeds the generated CustomResourceDefinitions, so that the CLI judges a
// manifest by the very schema that the API server has.
package crds

import "embed"

// Files holds one YAML file for each kind.
//
//go:embed sluice.dev_*.yaml
var Files embed.FS
