package policyimport

import "strings"

// shim is the end of a template's module: the rule that a Gate evaluates. The Gate's
// parameters under the template's name are the spec of a Constraint. What of it is not
// understood denies: passing over it could let something through.
func shim(name string, parameters bool) string {
	text := shimRules
	if parameters {
		text += shimRequired
	}
	return strings.ReplaceAll(text, "NAME", name)
}

const shimRules = `
# From here on: what Gatekeeper would do. The Constraint's spec is spec.parameters.NAME of
# the Gate, with match.kinds and parameters.

deny contains finding if {
	some judged in gatekeeper_judged
	some result in gatekeeper_violation with input as gatekeeper_input(judged)
	finding := {
		"msg": sprintf("%v", [object.get(result, "msg", "the template gives no message")]),
		"object": gatekeeper_name(judged),
	}
}

deny contains {"msg": sprintf("spec.parameters.NAME.%s of the Gate is not known: there are match.kinds and parameters", [path])} if {
	some path in gatekeeper_unknown
}

gatekeeper_constraint := object.get(input.parameters, "NAME", {})

gatekeeper_unknown contains field if {
	some field in object.keys(gatekeeper_constraint)
	not field in {"match", "parameters", "enforcementAction"}
}

gatekeeper_unknown contains "enforcementAction" if {
	object.get(gatekeeper_constraint, "enforcementAction", "deny") != "deny"
}

gatekeeper_unknown contains sprintf("match.%s", [field]) if {
	some field in object.keys(object.get(gatekeeper_constraint, "match", {}))
	field != "kinds"
}

# The Workload and its children, or the other object that is judged.
gatekeeper_judged := [judged |
	some judged in array.concat([input.workload | input.workload.kind], input.children)
	gatekeeper_matches(judged)
]

gatekeeper_matches(_) if count(object.get(gatekeeper_constraint, ["match", "kinds"], [])) == 0

gatekeeper_matches(judged) if {
	some entry in gatekeeper_constraint.match.kinds
	gatekeeper_lists(object.get(entry, "apiGroups", ["*"]), gatekeeper_kind(judged).group)
	gatekeeper_lists(object.get(entry, "kinds", ["*"]), gatekeeper_kind(judged).kind)
}

gatekeeper_lists(words, _) if "*" in words

gatekeeper_lists(words, word) if word in words

gatekeeper_input(judged) := {
	"review": {
		"object": judged,
		"kind": gatekeeper_kind(judged),
		"name": object.get(judged, ["metadata", "name"], ""),
		"namespace": object.get(judged, ["metadata", "namespace"], ""),
		"operation": "CREATE",
	},
	"parameters": object.get(gatekeeper_constraint, "parameters", {}),
}

gatekeeper_kind(judged) := {
	"group": concat("/", array.slice(parts, 0, count(parts) - 1)),
	"version": parts[count(parts) - 1],
	"kind": object.get(judged, "kind", ""),
} if {
	parts := split(object.get(judged, "apiVersion", ""), "/")
}

gatekeeper_name(judged) := sprintf("%s/%s/%s", [judged.kind, judged.metadata.namespace, judged.metadata.name]) if {
	judged.metadata.namespace != ""
} else := sprintf("%v/%v", [object.get(judged, "kind", ""), object.get(judged, ["metadata", "name"], "")])
`

const shimRequired = `
# A Constraint without parameters finds nothing.
deny contains {"msg": "spec.parameters.NAME of the Gate is missing: write the spec of the Constraint there"} if {
	gatekeeper_constraint == {}
}
`
