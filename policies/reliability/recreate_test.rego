package sluice.reliability.recreate_test

import data.sluice.lib.fixtures
import data.sluice.reliability.recreate

_volume := ["add", "volumes/-", {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]

_claim(mode) := {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "store"}, "spec": {"accessModes": [mode]}}

test_allows_a_deployment_without_claims if {
	count(recreate.deny) == 0 with input as fixtures.good
}

test_denies_a_claim_under_a_rolling_update if {
	found := recreate.deny with input as fixtures.pod([_volume])
	fixtures.paths(found) == {"spec.template.spec.volumes[1]"}
}

test_allows_recreate if {
	changed := fixtures.pod([_volume])
	count(recreate.deny) == 0 with input as json.patch(changed, [{"op": "add", "path": "children/0/spec/strategy", "value": {"type": "Recreate"}}])
}

test_allows_claims_that_many_may_use if {
	changed := fixtures.pod([_volume])
	shared := json.patch(changed, [{"op": "add", "path": "children/-", "value": _claim("ReadWriteMany")}])
	count(recreate.deny) == 0 with input as shared
	single := json.patch(changed, [{"op": "add", "path": "children/-", "value": _claim("ReadWriteOnce")}])
	count(recreate.deny) == 1 with input as single
	named := json.patch(changed, [{"op": "add", "path": "parameters/reliability", "value": {"sharedClaims": ["data"]}}])
	count(recreate.deny) == 0 with input as named
	read_only := json.patch(changed, [{"op": "add", "path": "children/0/spec/template/spec/volumes/1/persistentVolumeClaim/readOnly", "value": true}])
	count(recreate.deny) == 0 with input as read_only
}
