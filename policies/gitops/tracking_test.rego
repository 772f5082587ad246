package sluice.gitops.tracking_test

import data.sluice.gitops.tracking
import data.sluice.lib.fixtures

test_allows_children_of_the_operator if {
	count(tracking.deny) == 0 with input as fixtures.good
}

test_denies_the_tracking_annotation_and_label if {
	found := tracking.deny with input as fixtures.spoiled([
		["add", "children/0/metadata/annotations", {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:store/shop"}],
		["add", "children/0/metadata/labels/argocd.argoproj.io~1instance", "shop"],
	])
	fixtures.paths(found) == {
		`metadata.annotations["argocd.argoproj.io/tracking-id"]`,
		`metadata.labels["argocd.argoproj.io/instance"]`,
	}
}
