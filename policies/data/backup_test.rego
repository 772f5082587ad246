package sluice.data.backup_test

import data.sluice.data.backup
import data.sluice.lib.fixtures

_storage := ["add", "workload/spec/storage", {"size": "1Gi", "mountPath": "/data"}]

test_allows_a_workload_without_storage if {
	count(backup.deny) == 0 with input as fixtures.good
}

test_denies_storage_without_backup_in_prod if {
	found := backup.deny with input as fixtures.spoiled([_storage])
	fixtures.paths(found) == {"spec.backup"}
}

test_allows_storage_with_backup if {
	count(backup.deny) == 0 with input as fixtures.spoiled([_storage, ["add", "workload/spec/backup", {"schedule": "0 3 * * *"}]])
}

test_allows_storage_without_backup_in_dev if {
	count(backup.deny) == 0 with input as fixtures.spoiled([_storage, ["replace", "environment", "dev"]])
}

test_denies_in_the_environments_that_are_named if {
	count(backup.deny) == 1 with input as fixtures.spoiled([
		_storage, ["replace", "environment", "live"],
		["add", "parameters/data", {"backupEnvironments": ["live"]}],
	])
}
