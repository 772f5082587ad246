// Package policies is the Rego library that ships in the binary. Each folder is a group
// that a Gate names as builtin; lib holds what the groups share.
package policies

import "embed"

// Files are the library's modules and their tests, by path such as
// restricted/privileged.rego.
//
//go:embed */*.rego
var Files embed.FS
