# METADATA
# title: Tokens of known services are not written out
# description: Tokens of cloud and code hosting services have forms of their own, by which others find them too. Env, arguments and ConfigMaps are looked at.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#secrets
# custom:
#   severity: critical
#   remedy: Revoke the token now; put the new one into a Secret and refer to it.
package sluice.secrets.known_tokens

import data.sluice.lib.texts

_forms := {
	"an AWS access key": `(?:^|[^A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?:[^A-Z0-9]|$)`,
	"a GitHub token": `(?:^|[^A-Za-z0-9])(?:gh[oprsu]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})`,
	"a GitLab token": `(?:^|[^A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}`,
	"a Google API key": `(?:^|[^A-Za-z0-9])AIza[A-Za-z0-9_-]{35}`,
	"a Slack token": `(?:^|[^A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}`,
	"a Stripe key": `(?:^|[^A-Za-z0-9])[rs]k_live_[A-Za-z0-9]{20,}`,
	"a JSON web token": `(?:^|[^A-Za-z0-9])eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`,
	"a password in a URL": `[a-z][a-z0-9+.-]*://[^\s/:@"'$]+:[^\s/@"'$<*]{3,}@`,
}

deny contains violation if {
	some text in texts.all_texts
	some form, pattern in _forms
	regex.match(pattern, text.value)
	violation := texts.violation(text, sprintf("holds %s", [form]))
}
