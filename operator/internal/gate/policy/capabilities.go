package policy

import (
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// allowedBuiltins are the functions a policy may call. A list of what is allowed, so
// that what a new OPA release adds stays out until someone has looked at it.
//
// Left out, and why: network (http.send, net.lookup_ip_addr), environment
// (opa.runtime), clock (time.now_ns, io.jwt.*, crypto.x509.*), the machine's time zone
// files (the rest of time.*), randomness (rand.intn, uuid.rfc4122), other hosts'
// schemas (json.match_schema, json.verify_schema), output (print, trace), keys and
// signing (crypto.parse_private_keys, providers.aws.*), work or output that grows
// exponentially with what goes in (regex.globs_match, graph.reachable_paths,
// net.cidr_expand, bits.lsh, strings.render_template), and parsers for which a policy
// over Kubernetes objects has no use (graphql.*, rego.parse_module).
var allowedBuiltins = []string{
	// Expressions of the language.
	"and", "assign", "div", "eq", "equal", "gt", "gte", "internal.member_2", "internal.member_3",
	"internal.template_string", "lt", "lte", "minus", "mul", "neq", "or", "plus", "rem",
	// Numbers.
	"abs", "bits.and", "bits.negate", "bits.or", "bits.rsh", "bits.xor", "ceil", "floor", "format_int",
	"max", "min", "numbers.range", "numbers.range_step", "product", "round", "sum", "to_number",
	// Collections.
	"array.concat", "array.flatten", "array.reverse", "array.slice", "count", "graph.reachable",
	"intersection", "json.filter", "json.patch", "json.remove", "object.filter", "object.get",
	"object.keys", "object.remove", "object.subset", "object.union", "object.union_n", "set_diff",
	"sort", "union", "walk",
	// Strings.
	"concat", "contains", "endswith", "glob.match", "glob.quote_meta", "indexof", "indexof_n", "lower",
	"regex.find_all_string_submatch_n", "regex.find_n", "regex.is_valid", "regex.match",
	"regex.replace", "regex.split", "regex.template_match", "replace", "split", "sprintf",
	"startswith", "strings.any_prefix_match", "strings.any_suffix_match", "strings.count",
	"strings.replace_n", "strings.reverse", "strings.split_n", "substring", "trim", "trim_left",
	"trim_prefix", "trim_right", "trim_space", "trim_suffix", "upper",
	// Formats.
	"base64.decode", "base64.encode", "base64.is_valid", "base64url.decode", "base64url.encode",
	"base64url.encode_no_pad", "crypto.md5", "crypto.sha1", "crypto.sha256", "hex.decode",
	"hex.encode", "json.is_valid", "json.marshal", "json.marshal_with_options", "json.unmarshal",
	"net.cidr_contains", "net.cidr_intersects", "net.cidr_is_valid", "semver.compare",
	"semver.is_valid", "time.parse_duration_ns", "time.parse_rfc3339_ns", "units.parse",
	"units.parse_bytes", "uri.is_valid", "uri.parse", "urlquery.decode", "urlquery.decode_object",
	"urlquery.encode", "urlquery.encode_object", "uuid.parse", "yaml.is_valid", "yaml.marshal",
	"yaml.unmarshal",
	// Types and annotations.
	"is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set", "is_string",
	"rego.metadata.chain", "rego.metadata.rule", "type_name",
}

// capabilities of a policy: this OPA's language, the allowed functions, no hosts.
var capabilities = sync.OnceValue(func() *ast.Capabilities {
	allowed := make(map[string]bool, len(allowedBuiltins))
	for _, name := range allowedBuiltins {
		allowed[name] = true
	}
	c := ast.CapabilitiesForThisVersion()
	kept := make([]*ast.Builtin, 0, len(allowedBuiltins))
	for _, b := range c.Builtins {
		if allowed[b.Name] {
			kept = append(kept, b)
		}
	}
	c.Builtins = kept
	c.AllowNet = []string{}
	return c
})
