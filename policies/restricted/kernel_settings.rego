# METADATA
# title: Kernel protections stay on
# description: Unmasked /proc, unsafe sysctls, foreign SELinux labels and an unconfined AppArmor profile weaken what keeps a container in.
# custom:
#   severity: high
#   remedy: Remove procMount, sysctls, seLinuxOptions and appArmorProfile from the securityContext, or use their safe values.
package sluice.restricted.kernel_settings

import data.sluice.lib.pods

_safe_sysctls := {
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
	"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
}

_selinux_types := {null, "", "container_engine_t", "container_init_t", "container_kvm_t", "container_t"}

deny contains violation if {
	some container in pods.all_containers
	not object.get(container.spec, ["securityContext", "procMount"], null) in {null, "Default"}
	violation := pods.violation(container, "securityContext.procMount", "unmasks /proc")
}

deny contains violation if {
	some container in pods.all_containers
	pods.effective(container, ["appArmorProfile", "type"]) == "Unconfined"
	violation := pods.violation(container, "securityContext.appArmorProfile.type", "has no AppArmor profile")
}

deny contains violation if {
	some container in pods.all_containers
	not pods.effective(container, ["seLinuxOptions", "type"]) in _selinux_types
	violation := pods.violation(container, "securityContext.seLinuxOptions.type", "has a foreign SELinux type")
}

deny contains violation if {
	some container in pods.all_containers
	some field in ["role", "user"]
	not pods.effective(container, ["seLinuxOptions", field]) in {null, ""}
	violation := pods.violation(
		container, sprintf("securityContext.seLinuxOptions.%s", [field]),
		sprintf("sets a SELinux %s", [field]),
	)
}

deny contains violation if {
	some pod in pods.all_pods
	some i, sysctl in object.get(pod.spec, ["securityContext", "sysctls"], [])
	not sysctl.name in _safe_sysctls
	violation := {
		"msg": sprintf("the pod sets the unsafe sysctl %v", [object.get(sysctl, "name", "")]),
		"object": pod.object,
		"path": sprintf("%s.securityContext.sysctls[%v]", [pod.path, i]),
	}
}
