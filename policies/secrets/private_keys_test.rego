package sluice.secrets.private_keys_test

import data.sluice.lib.fixtures
import data.sluice.secrets.private_keys

_root := "spec.template.spec"

# Put together here, so that no scanner takes this file for a leak.
_key := concat(" ", ["-----BEGIN", "EC PRIVATE", "KEY-----\nMHc"])

test_allows_plain_configuration if {
	count(private_keys.deny) == 0 with input as fixtures.good
}

test_allows_a_public_key if {
	public := concat(" ", ["-----BEGIN PUBLIC", "KEY-----"])
	count(private_keys.deny) == 0 with input as fixtures.spoiled([["add", "children/2/data/key.pem", public]])
}

test_denies_a_key_in_a_config_map if {
	found := private_keys.deny with input as fixtures.spoiled([["add", "children/2/data/key.pem", _key]])
	fixtures.paths(found) == {`data["key.pem"]`}
	fixtures.objects(found) == {"ConfigMap/store/shop"}
	not contains(json.marshal(found), "MHc")
}

test_denies_a_key_in_env if {
	found := private_keys.deny with input as fixtures.pod([["replace", "containers/0/env/0/value", _key]])
	fixtures.paths(found) == {sprintf("%s.containers[0].env[0].value", [_root])}
}
