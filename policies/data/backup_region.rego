# METADATA
# title: Backups are where they may be
# description: A backup in a region that is not known may be out of the law that holds for its data. parameters.data.backupRegions lists the regions that may be used; without it any that is named.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#data
# custom:
#   severity: high
#   remedy: Set spec.backup.s3.region of the Workload to a region of parameters.data.backupRegions of the Gate.
package sluice.data.backup_region

_regions := object.get(input.parameters, ["data", "backupRegions"], null)

_region := object.get(input.workload, ["spec", "backup", "s3", "region"], "")

deny contains violation if {
	object.get(input.workload, ["spec", "backup"], null) != null
	_region == ""
	violation := {"msg": "the backup names no region", "path": "spec.backup.s3.region"}
}

deny contains violation if {
	_region != ""
	_regions != null
	not _region in _regions
	violation := {"msg": sprintf("backups may not be in region %s", [_region]), "path": "spec.backup.s3.region"}
}
