package sluice.secrets.config_literals_test

import data.sluice.lib.fixtures
import data.sluice.secrets.config_literals

_config(text) := fixtures.spoiled([["replace", "children/2/data/shop.conf", text]])

test_allows_configuration_without_secrets if {
	count(config_literals.deny) == 0 with input as fixtures.good
}

test_denies_secrets_in_the_usual_formats if {
	every text in [
		"a = 1\npassword = hunter2\n", `{"apiKey": "abcd1234"}`, "db:\n  password: hunter2", "smtp.password=hunter2",
		`client_secret: "s3cr3t"`, "url=http://x/?token=abcdef", "DB_PASSWORD=hunter2",
	] {
		found := config_literals.deny with input as _config(text)
		fixtures.paths(found) == {`data["shop.conf"]`}
	}
}

test_denies_secrets_in_arguments if {
	found := config_literals.deny with input as fixtures.pod([["add", "containers/0/args", ["--user=a", "--password=hunter2"]]])
	fixtures.paths(found) == {"spec.template.spec.containers[0].args[1]"}
}

test_allows_references_and_what_only_speaks_of_secrets if {
	every text in [
		"password = ${DB_PASSWORD}", "password_file = /run/secrets/db", "password: /run/secrets/db", "token = $(TOKEN)",
		"token_ttl = 3600", "secretName: shop", "tokens = many", "password =", "token: true", "# the password comes from the Secret",
	] {
		count(config_literals.deny) == 0 with input as _config(text)
	}
}

test_never_shows_the_secret if {
	found := config_literals.deny with input as _config("password = hunter2")
	every violation in found {
		not contains(violation.msg, "hunter2")
	}
}
