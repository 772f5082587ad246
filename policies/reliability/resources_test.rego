package sluice.reliability.resources_test

import data.sluice.lib.fixtures
import data.sluice.reliability.resources

_root := "spec.template.spec"

test_allows_requests_and_limit if {
	count(resources.deny) == 0 with input as fixtures.good
}

test_denies_each_that_is_missing if {
	found := resources.deny with input as fixtures.pod([["remove", "containers/0/resources", null]])
	fixtures.paths(found) == {sprintf("%s.containers[0].resources.%s", [_root, f]) |
		some f in ["requests.cpu", "requests.memory", "limits.memory"]
	}
}

test_allows_a_cron_job_without if {
	count(resources.deny) == 0 with input as fixtures.spoiled([["remove", "children/1/spec/jobTemplate/spec/template/spec/containers/0/resources", null]])
}
