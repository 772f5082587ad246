package sluice.gitops.labels_test

import data.sluice.gitops.labels
import data.sluice.lib.fixtures

test_allows_labelled_children if {
	count(labels.deny) == 0 with input as fixtures.good
}

test_denies_a_missing_label if {
	found := labels.deny with input as fixtures.spoiled([["remove", "children/2/metadata/labels/app.kubernetes.io~1name", null]])
	fixtures.paths(found) == {`metadata.labels["app.kubernetes.io/name"]`}
	fixtures.objects(found) == {"ConfigMap/store/shop"}
}

test_denies_no_labels_at_all if {
	count(labels.deny) == 2 with input as fixtures.spoiled([["remove", "children/2/metadata/labels", null]])
}
