# METADATA
# title: Secrets are not written in configuration
# description: A password in a ConfigMap, or in the arguments of a container, is in Git, in the API server and readable to everyone who may read the namespace.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#secrets
# custom:
#   severity: critical
#   remedy: Put the value into a Secret, mount it by spec.secrets and name its file in the configuration; then change the secret that was exposed.
package sluice.secrets.config_literals

import data.sluice.lib.texts

# password = hunter2, "apiKey": "…", --token=…; of values, at least four letters that are
# no reference, path, placeholder or number of seconds.
_assignment := `(?i)(?:^|[\s"'{,;?&]|--?)(?:[a-z0-9]+[_.-])*(?:password|passwd|passphrase|secret|token|credentials?|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key)["']?\s*[:=]\s*["']?([^\s"',;}]{4,})`

_harmless := `(?i)^(?:\$|%|\{|<|/|\.\.?/|file:|env:|vault:|secret:|true$|false$|null$|none$|changeme$|[0-9.]+[a-z]{0,2}$|\*+$|x+$)`

deny contains violation if {
	some text in texts.all_texts
	text.source != "env"
	some match in regex.find_all_string_submatch_n(_assignment, text.value, 100)
	not regex.match(_harmless, match[1])
	violation := texts.violation(text, "has a secret written out")
}
