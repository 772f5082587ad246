package sluice.secrets.known_tokens_test

import data.sluice.lib.fixtures
import data.sluice.secrets.known_tokens

_env(value) := fixtures.pod([["add", "containers/0/env/-", {"name": "X", "value": value}]])

# Put together here, so that no scanner takes this file for a leak.
_tokens := [
	concat("", ["AK", "IA", "ABCDEFGHIJKLMNOP"]),
	concat("", ["gh", "p_", "abcdefghijklmnopqrstuvwxyz0123456789"]),
	concat("", ["gl", "pat-", "abcdefghijklmnopqrst"]),
	concat("", ["AI", "za", "abcdefghijklmnopqrstuvwxyz012345678"]),
	concat("", ["xo", "xb-", "123456789012"]),
	concat("", ["sk_", "live_", "abcdefghijklmnopqrst"]),
	concat(".", [concat("", ["ey", "JhbGciOiJIUzI1NiJ9"]), concat("", ["ey", "JzdWIiOiIxMjM0In0"]), "abcdefghijklmnop"]),
	concat("", ["postgres://shop:", "hunter2", "@db/shop"]),
]

test_denies_each_form if {
	every token in _tokens {
		found := known_tokens.deny with input as _env(sprintf("key=%s", [token]))
		fixtures.paths(found) == {"spec.template.spec.containers[0].env[1].value"}
		every violation in found {
			not contains(violation.msg, token)
		}
	}
}

test_looks_into_config_maps if {
	found := known_tokens.deny with input as fixtures.spoiled([["replace", "children/2/data/shop.conf", _tokens[0]]])
	fixtures.paths(found) == {`data["shop.conf"]`}
}

test_allows_what_is_alike if {
	count(known_tokens.deny) == 0 with input as fixtures.good
	every value in ["AKIA", "postgres://shop:$(PASSWORD)@db/shop", "http://user@host/", "https://a.b:8080/x@y", "eyJ.x", "ghp_short"] {
		count(known_tokens.deny) == 0 with input as _env(value)
	}
}
