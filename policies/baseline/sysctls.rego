# METADATA
# title: Only safe sysctls are set
# description: Other kernel settings than those of the list are not the pod's own, and change the node for everyone on it.
# related_resources:
#   - ref: https://github.com/sluice-dev/sluice/blob/main/docs/policies.md#baseline
# custom:
#   severity: high
#   remedy: Remove the sysctl from securityContext.sysctls of the pod.
package sluice.baseline.sysctls

import data.sluice.lib.pods

_safe := {
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
	"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
}

deny contains violation if {
	some pod in pods.all_pods
	some i, sysctl in pod.spec.securityContext.sysctls
	name := object.get(sysctl, "name", "")
	not name in _safe
	violation := {
		"msg": sprintf("the pod sets the unsafe sysctl %v", [name]),
		"object": pods.object_of(pod),
		"path": sprintf("%s.securityContext.sysctls[%v]", [pods.path_of(pod), i]),
	}
}
