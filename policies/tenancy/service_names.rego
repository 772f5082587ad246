# METADATA
# title: Services of others are not called by name
# description: A host such as db.other.svc in env, arguments or a ConfigMap is a dependency on another tenant that nobody declared. parameters.tenancy.sharedNamespaces names namespaces that everyone may use.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#tenancy
# custom:
#   severity: medium
#   remedy: Call services of the own namespace, or add the other one to parameters.tenancy.sharedNamespaces of the Gate.
package sluice.tenancy.service_names

import data.sluice.lib.texts

_shared := object.get(input.parameters, ["tenancy", "sharedNamespaces"], [])

# name.namespace.svc, at the end of the name or before a dot, port or path.
_service := `(?:^|[^a-z0-9.-])[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?\.([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)\.svc\b`

deny contains violation if {
	some text in texts.all_texts
	contains(text.value, ".svc")
	some match in regex.find_all_string_submatch_n(_service, text.value, 100)
	namespace := match[1]
	namespace != input.namespace.name
	not namespace in _shared
	violation := texts.violation(text, sprintf("names a service of namespace %s", [namespace]))
}
