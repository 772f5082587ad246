# METADATA
# title: Texts of the children
# description: Where people write values, secret ones by mistake included.
package sluice.lib.texts

import data.sluice.lib.objects
import data.sluice.lib.pods

# METADATA
# description: |
#   All values of env, of commands and arguments, and of ConfigMaps, as {at, of, source, value}:
#   source is env, command, args or ConfigMap, of the container or the ConfigMap, and at where
#   in it the value stands.
all_texts := array.flatten([
	[text |
		some container in pods.all_containers
		some i, variable in container.spec.env
		not variable.value in {"", null}
		text := {"at": i, "of": container, "source": "env", "value": variable.value}
	],
	[text |
		some container in pods.all_containers
		some field in ["command", "args"]
		some i, value in container.spec[field]
		text := {"at": i, "of": container, "source": field, "value": value}
	],
	[text |
		some child in input.children
		child.kind == "ConfigMap"
		some key, value in child.data
		text := {"at": key, "of": child, "source": "ConfigMap", "value": value}
	],
])

# METADATA
# description: |
#   A violation by a text. What must not be shown has to stay out of the message, which says
#   where the text stands: that is enough.
violation(text, msg) := {
	"msg": sprintf("%s %s", [_what(text), msg]),
	"object": _object(text),
	"path": _path(text),
}

_what(text) := sprintf("key %q of the ConfigMap", [text.at]) if text.source == "ConfigMap"

_what(text) := sprintf("variable %s of container %q", [name, text.of.name]) if {
	text.source == "env"
	name := object.get(text.of.spec.env[text.at], "name", "")
}

_what(text) := sprintf("%s of container %q", [text.source, text.of.name]) if text.source in {"args", "command"}

_object(text) := objects.name(text.of) if text.source == "ConfigMap"

_object(text) := pods.object_of(text.of) if text.source != "ConfigMap"

_path(text) := sprintf("data[%q]", [text.at]) if text.source == "ConfigMap"

_path(text) := sprintf("%s.env[%v].value", [pods.path_of(text.of), text.at]) if text.source == "env"

_path(text) := sprintf("%s.%s[%v]", [pods.path_of(text.of), text.source, text.at]) if text.source in {"args", "command"}
