package sluice.baseline.privileged_test

import data.sluice.baseline.privileged
import data.sluice.lib.fixtures

_root := "spec.template.spec"

test_allows_a_plain_container if {
	count(privileged.deny) == 0 with input as fixtures.good
}

test_denies_a_privileged_container if {
	found := privileged.deny with input as fixtures.pod([["add", "containers/0/securityContext/privileged", true]])
	fixtures.paths(found) == {sprintf("%s.containers[0].securityContext.privileged", [_root])}
	fixtures.objects(found) == {"Deployment/store/shop"}
}

test_denies_a_privileged_init_container if {
	found := privileged.deny with input as fixtures.pod([["add", "initContainers/0/securityContext/privileged", true]])
	fixtures.paths(found) == {sprintf("%s.initContainers[0].securityContext.privileged", [_root])}
}

test_denies_a_privileged_ephemeral_container if {
	spec := object.union(fixtures.container("debug"), {"securityContext": {"privileged": true}})
	found := privileged.deny with input as fixtures.pod([["add", "ephemeralContainers", [spec]]])
	fixtures.paths(found) == {sprintf("%s.ephemeralContainers[0].securityContext.privileged", [_root])}
}

test_denies_a_host_process_of_the_pod if {
	found := privileged.deny with input as fixtures.pod([
		["add", "securityContext/windowsOptions", {"hostProcess": true}],
		["remove", "initContainers", null],
	])
	fixtures.paths(found) == {sprintf("%s.securityContext.windowsOptions.hostProcess", [_root])}
}

test_denies_in_a_cron_job if {
	found := privileged.deny with input as fixtures.spoiled([[
		"add", "children/1/spec/jobTemplate/spec/template/spec/containers/0/securityContext/privileged",
		true,
	]])
	fixtures.paths(found) == {"spec.jobTemplate.spec.template.spec.containers[0].securityContext.privileged"}
	fixtures.objects(found) == {"CronJob/store/shop"}
}
