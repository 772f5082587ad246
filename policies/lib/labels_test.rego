package sluice.lib.labels_test

import data.sluice.lib.labels

_labels := {"app": "shop", "tier": "web"}

test_labels_have_to_match if {
	labels.selects({"matchLabels": {"app": "shop"}}, _labels)
	not labels.selects({"matchLabels": {"app": "other"}}, _labels)
	not labels.selects({"matchLabels": {"none": ""}}, _labels)
}

test_an_empty_selector_selects_all_and_none_nothing if {
	labels.selects({}, _labels)
	not labels.selects(null, _labels)
}

test_expressions_have_to_hold if {
	some operator, values in {"In": ["shop"], "NotIn": ["other"]}
	labels.selects({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}, _labels)
	labels.selects({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["x"]}]}, _labels)
	labels.selects({"matchExpressions": [{"key": "app", "operator": "Exists"}, {"key": "none", "operator": "DoesNotExist"}]}, _labels)
}

test_expressions_that_do_not_hold if {
	not labels.selects({"matchExpressions": [{"key": "app", "operator": "In", "values": ["other"]}]}, _labels)
	not labels.selects({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["shop"]}]}, _labels)
	not labels.selects({"matchExpressions": [{"key": "none", "operator": "Exists"}]}, _labels)
	not labels.selects({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, _labels)
	not labels.selects({"matchExpressions": [{"key": "app", "operator": "Near", "values": ["shop"]}]}, _labels)
}
