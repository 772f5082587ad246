package sluice.restricted.volume_types_test

import data.sluice.lib.fixtures
import data.sluice.restricted.volume_types

_root := "spec.template.spec"

test_allows_an_empty_dir if {
	count(volume_types.deny) == 0 with input as fixtures.good
}

test_denies_a_host_path if {
	found := volume_types.deny with input as fixtures.pod([["add", "volumes/-", {"name": "root", "hostPath": {"path": "/"}}]])
	fixtures.paths(found) == {sprintf("%s.volumes[1].hostPath", [_root])}
}
