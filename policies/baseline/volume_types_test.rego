package sluice.baseline.volume_types_test

import data.sluice.baseline.volume_types
import data.sluice.lib.fixtures

test_allows_other_volumes if {
	count(volume_types.deny) == 0 with input as fixtures.good
	count(volume_types.deny) == 0 with input as fixtures.pod([["add", "volumes/-", {"name": "share", "nfs": {"server": "nas", "path": "/"}}]])
}

test_denies_a_host_path if {
	found := volume_types.deny with input as fixtures.pod([["add", "volumes/-", {"name": "root", "hostPath": {"path": "/"}}]])
	fixtures.paths(found) == {"spec.template.spec.volumes[1].hostPath"}
}
