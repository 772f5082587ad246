# As conftest has it, over the envelope.
package tier

import data.names

deny contains sprintf("workload %q is in tier %q; there are %v", [input.workload.metadata.name, tier, names.tiers]) if {
	tier := object.get(input.workload, ["metadata", "labels", "tier"], "")
	not tier in names.tiers
}

warn contains {"msg": "fewer than 4 replicas in tier gold", "path": "spec.replicas"} if {
	input.workload.metadata.labels.tier == "gold"
	input.workload.spec.replicas < 4
}
