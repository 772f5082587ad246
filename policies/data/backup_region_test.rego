package sluice.data.backup_region_test

import data.sluice.data.backup_region
import data.sluice.lib.fixtures

_backup(region) := ["add", "workload/spec/backup", {"schedule": "0 3 * * *", "s3": {"bucket": "b", "region": region}}]

test_allows_no_backup_and_any_region if {
	count(backup_region.deny) == 0 with input as fixtures.good
	count(backup_region.deny) == 0 with input as fixtures.spoiled([_backup("eu-central-1")])
}

test_denies_a_backup_without_region if {
	found := backup_region.deny with input as fixtures.spoiled([_backup("")])
	fixtures.paths(found) == {"spec.backup.s3.region"}
}

test_holds_the_region_against_the_parameter if {
	regions := ["add", "parameters/data", {"backupRegions": ["eu-central-1"]}]
	count(backup_region.deny) == 0 with input as fixtures.spoiled([regions, _backup("eu-central-1")])
	count(backup_region.deny) == 1 with input as fixtures.spoiled([regions, _backup("us-east-1")])
}
