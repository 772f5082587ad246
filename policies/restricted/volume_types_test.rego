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

test_takes_a_volume_of_no_type_for_an_empty_dir if {
	count(volume_types.deny) == 0 with input as fixtures.pod([["add", "volumes/-", {"name": "scratch", "hostPath": null}]])
}

test_denies_what_bypasses_storage_classes if {
	found := volume_types.deny with input as fixtures.pod([["add", "volumes/-", {"name": "share", "nfs": {"server": "nas", "path": "/"}}]])
	fixtures.paths(found) == {sprintf("%s.volumes[1].nfs", [_root])}
}
