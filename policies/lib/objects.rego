# METADATA
# title: Names of objects
# description: How findings name the objects they are about.
package sluice.lib.objects

# METADATA
# description: |
#   Kind/namespace/name of an object, or Kind/name when it has no namespace. An object
#   without kind or name is still named, so that no rule loses a finding over it.
name(object_) := sprintf("%v/%v/%v", [kind, namespace, own_name]) if {
	namespace := object.get(object_, ["metadata", "namespace"], "")
	namespace != ""
	kind := object.get(object_, "kind", "")
	own_name := object.get(object_, ["metadata", "name"], "")
} else := sprintf("%v/%v", [object.get(object_, "kind", ""), object.get(object_, ["metadata", "name"], "")])
