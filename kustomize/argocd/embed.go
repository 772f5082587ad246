// Package argocd holds what teaches Argo CD Sluice's kinds.
package argocd

import "embed"

// Customizations are health checks and actions in Lua with their tests, laid out as Argo
// CD's own: resource_customizations/GROUP/KIND.
//
//go:embed resource_customizations
var Customizations embed.FS
