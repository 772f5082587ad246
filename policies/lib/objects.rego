# METADATA
# title: Names of objects
# description: How findings name the objects they are about.
package sluice.lib.objects

# METADATA
# description: |
#   Kind/namespace/name of an object, or Kind/name when it has no namespace. An object
#   without kind or name is still named, so that no rule loses a finding over it.
name(object_) := sprintf("%v/%v/%v", [kind(object_), namespace, _own_name(object_)]) if {
	namespace := object.get(object_, ["metadata", "namespace"], "")
	namespace != ""
} else := sprintf("%v/%v", [kind(object_), _own_name(object_)])

# METADATA
# description: Kind of an object, "" when it has none.
kind(object_) := object.get(object_, "kind", "")

_own_name(object_) := object.get(object_, ["metadata", "name"], "")
