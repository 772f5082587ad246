# METADATA
# title: Secrets are not written in env
# description: A password in env is in Git, in the API server and in every dump of the pod.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#secrets
# custom:
#   severity: critical
#   remedy: Put the value into a Secret and refer to it by spec.secrets or valueFrom.secretKeyRef; then change the secret that was exposed.
package sluice.secrets.env_literals

import data.sluice.lib.pods

_secret_name := `(?i)(^|_)(PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|TOKEN|SECRET|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET_?KEY)(_|$)`

# Names that speak about a secret without holding it.
_about_a_secret := `(?i)_(FILE|PATH|DIR|NAME|TTL|EXPIRY|LIFETIME|SECONDS|MINUTES|LENGTH|URL|URI|ISSUER|AUDIENCE)$`

# $(NAME) is replaced by another variable, which may come from a Secret.
_reference := `^\$\([A-Za-z_][A-Za-z0-9_.-]*\)$`

# The value itself must never be in the message: findings go to logs and pull requests.
deny contains violation if {
	some container in pods.all_containers
	some i, variable in object.get(container.spec, "env", [])
	value := object.get(variable, "value", "")
	value != ""
	regex.match(_secret_name, variable.name)
	not regex.match(_about_a_secret, variable.name)
	not regex.match(_reference, value)
	violation := pods.violation(
		container, sprintf("env[%v].value", [i]),
		sprintf("has the value of %s written in its env", [variable.name]),
	)
}
