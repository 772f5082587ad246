# METADATA
# title: Label selectors
# description: What a selector of Kubernetes selects.
package sluice.lib.labels

# METADATA
# description: |
#   Whether a selector with matchLabels and matchExpressions selects labels. An empty one
#   selects everything; a selector that is null selects nothing.
selects(selector, labels) if {
	selector != null
	every key, value in object.get(selector, "matchLabels", {}) {
		labels[key] == value
	}
	every expression in object.get(selector, "matchExpressions", []) {
		_holds(expression, labels)
	}
}

_holds(expression, labels) if {
	expression.operator == "In"
	labels[expression.key] in expression.values
}

_holds(expression, labels) if {
	expression.operator == "NotIn"
	not object.get(labels, expression.key, null) in expression.values
}

_holds(expression, labels) if {
	expression.operator == "Exists"
	expression.key in object.keys(labels)
}

_holds(expression, labels) if {
	expression.operator == "DoesNotExist"
	not expression.key in object.keys(labels)
}
