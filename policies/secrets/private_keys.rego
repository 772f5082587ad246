# METADATA
# title: Private keys are not in plain objects
# description: A private key in a ConfigMap or in env is readable to everyone who may read the namespace.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#secrets
# custom:
#   severity: critical
#   remedy: Put the key into a Secret and mount it; then replace the key that was exposed.
package sluice.secrets.private_keys

import data.sluice.lib.objects
import data.sluice.lib.pods

_private_key := `-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`

deny contains violation if {
	some child in input.children
	child.kind == "ConfigMap"
	some key, value in object.get(child, "data", {})
	regex.match(_private_key, value)
	violation := {
		"msg": sprintf("the ConfigMap holds a private key under %q", [key]),
		"object": objects.name(child),
		"path": sprintf("data[%q]", [key]),
	}
}

deny contains violation if {
	some container in pods.all_containers
	some i, variable in object.get(container.spec, "env", [])
	regex.match(_private_key, object.get(variable, "value", ""))
	violation := pods.violation(
		container, sprintf("env[%v].value", [i]),
		sprintf("has a private key in variable %s", [object.get(variable, "name", "")]),
	)
}
