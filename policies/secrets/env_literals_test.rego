package sluice.secrets.env_literals_test

import data.sluice.lib.fixtures
import data.sluice.secrets.env_literals

_root := "spec.template.spec"

_with(name, value) := fixtures.pod([["replace", "containers/0/env", [{"name": name, "value": value}]]])

test_allows_a_greeting if {
	count(env_literals.deny) == 0 with input as fixtures.good
}

test_denies_secrets_by_name if {
	every name in ["PASSWORD", "DB_PASSWORD", "github_token", "AWS_SECRET_ACCESS_KEY", "STRIPE_API_KEY", "APIKEY", "DB_PASS"] {
		found := env_literals.deny with input as _with(name, "hunter2")
		fixtures.paths(found) == {sprintf("%s.containers[0].env[0].value", [_root])}
	}
}

test_never_tells_the_value if {
	found := env_literals.deny with input as _with("PASSWORD", "hunter2")
	count(found) == 1
	not contains(json.marshal(found), "hunter2")
}

test_allows_names_about_secrets if {
	every name in ["DB_PASSWORD_FILE", "TOKEN_TTL", "SECRET_NAME", "COMPASS_MODE", "KEYBOARD", "TOKENIZER"] {
		count(env_literals.deny) == 0 with input as _with(name, "x")
	}
}

test_allows_a_reference_and_an_empty_value if {
	every value in ["$(FROM_SECRET)", ""] {
		count(env_literals.deny) == 0 with input as _with("PASSWORD", value)
	}
}

test_denies_a_value_around_a_reference if {
	count(env_literals.deny) == 1 with input as _with("PASSWORD", "hunter2$(X)")
}

test_allows_a_secret_key_ref if {
	variable := {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
	count(env_literals.deny) == 0 with input as fixtures.pod([["replace", "containers/0/env", [variable]]])
}
