// Package argocd holds what teaches Argo CD Sluice's kinds.
package argocd

import "embed"

// Customizations are health checks and actions in Lua with their tests, laid out as Argo
// CD's own: resource_customizations/GROUP/KIND.
//
//go:embed resource_customizations
var Customizations embed.FS

// Access is what Argo CD may do in a cluster that it syncs a fleet into, as access.yaml, for a
// fleet in the namespace shop.
//
//go:embed cluster/access.yaml
var Access []byte
