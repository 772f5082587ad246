// Package policies is the Rego library that ships in the binary. Each folder is a group
// that a Gate names as builtin; lib holds what the groups share.
package policies

import "embed"

// Files are the library's modules and their tests, by path such as
// restricted/privileged.rego, and the JSON schemas of the groups' parameters, such as
// reliability/parameters.json.
//
//go:embed */*.rego */parameters.json
var Files embed.FS
