// Package workloadkustomize embeds the component by which Kustomize knows the fields of
// our kinds, so that `sluice init` writes the very same.
package workloadkustomize

import "embed"

// Files are the component's, by name.
//
//go:embed *.yaml
var Files embed.FS
