# METADATA
# title: Volumes for one pod change hands
# description: A Deployment rolls by starting the new pod before the old one is gone. Where both want a volume that one node may write to, the new one never starts. parameters.reliability.sharedClaims names claims that many may write to.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#reliability
# custom:
#   severity: high
#   remedy: Set strategy.type of the Deployment to Recreate, or use a StatefulSet (spec.storage of a Workload).
package sluice.reliability.recreate

import data.sluice.lib.objects

_shared_claims := object.get(input.parameters, ["reliability", "sharedClaims"], [])

_shared_modes := {"ReadOnlyMany", "ReadWriteMany"}

deny contains violation if {
	some child in input.children
	child.kind == "Deployment"
	object.get(child, ["spec", "strategy", "type"], "RollingUpdate") != "Recreate"
	some i, volume in object.get(child, ["spec", "template", "spec", "volumes"], [])
	claim := object.get(volume, ["persistentVolumeClaim", "claimName"], null)
	claim != null
	object.get(volume, ["persistentVolumeClaim", "readOnly"], false) != true
	not claim in _shared_claims
	not _shared(claim)
	violation := {
		"msg": sprintf("claim %q may be for one pod at a time, and the Deployment starts the next one first", [claim]),
		"object": objects.name(child),
		"path": sprintf("spec.template.spec.volumes[%v]", [i]),
	}
}

_shared(name) if {
	some child in input.children
	child.kind == "PersistentVolumeClaim"
	child.metadata.name == name
	some mode in child.spec.accessModes
	mode in _shared_modes
}
