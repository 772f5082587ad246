# METADATA
# title: Texts of the children
# description: Where people write values, secret ones by mistake included.
package sluice.lib.texts

import data.sluice.lib.objects
import data.sluice.lib.pods

# METADATA
# description: |
#   All values of env, of commands and arguments, and of ConfigMaps, as {object, path,
#   what, value}. What must not be shown has to stay out of messages: what is enough.
all_texts := array.concat(_container_texts, _config_texts)

_container_texts := [text |
	some container in pods.all_containers
	some entry in _entries(container.spec)
	text := {
		"object": container.object,
		"path": sprintf("%s.%s", [container.path, entry.path]),
		"what": sprintf("%s of container %q", [entry.what, container.name]),
		"value": entry.value,
	}
]

_entries(spec) := array.concat(
	[entry |
		some i, variable in object.get(spec, "env", [])
		value := object.get(variable, "value", "")
		value != ""
		entry := {"path": sprintf("env[%v].value", [i]), "what": sprintf("variable %s", [object.get(variable, "name", "")]), "value": value}
	],
	[entry |
		some field in ["command", "args"]
		some i, value in object.get(spec, field, [])
		entry := {"path": sprintf("%s[%v]", [field, i]), "what": field, "value": value}
	],
)

_config_texts := [text |
	some child in input.children
	objects.kind(child) == "ConfigMap"
	some key, value in object.get(child, "data", {})
	text := {
		"object": objects.name(child),
		"path": sprintf("data[%q]", [key]),
		"what": sprintf("key %q of the ConfigMap", [key]),
		"value": value,
	}
]
