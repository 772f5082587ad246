# METADATA
# title: Texts of the children
# description: Where people write values, secret ones by mistake included.
package sluice.lib.texts

import data.sluice.lib.objects
import data.sluice.lib.pods

# METADATA
# description: |
#   All values of env, of commands and arguments, and of ConfigMaps, as {object, source, value}
#   and what violation needs. source is env, command, args or ConfigMap.
all_texts := array.flatten([_variables, _words, _config_texts])

# METADATA
# description: |
#   A violation by a text. What must not be shown has to stay out of the message, which says
#   where the text stands: that is enough.
violation(text, msg) := {
	"msg": sprintf("%s %s", [sprintf(text.what, text.of), msg]),
	"object": text.object,
	"path": sprintf(text.path, text.at),
}

_variables := [text |
	some container in pods.all_containers
	some i, variable in container.spec.env
	value := variable.value
	not value in {"", null}
	text := {
		"object": container.object,
		"source": "env",
		"what": "variable %s of container %q",
		"of": [object.get(variable, "name", ""), container.name],
		"path": "%s.env[%v].value",
		"at": [container.path, i],
		"value": value,
	}
]

_words := [text |
	some container in pods.all_containers
	some field in ["command", "args"]
	some i, value in container.spec[field]
	text := {
		"object": container.object,
		"source": field,
		"what": "%s of container %q",
		"of": [field, container.name],
		"path": "%s.%s[%v]",
		"at": [container.path, field, i],
		"value": value,
	}
]

_config_texts := [text |
	some child in input.children
	child.kind == "ConfigMap"
	object := objects.name(child)
	some key, value in child.data
	text := {
		"object": object,
		"source": "ConfigMap",
		"what": "key %q of the ConfigMap",
		"of": [key],
		"path": "data[%q]",
		"at": [key],
		"value": value,
	}
]
