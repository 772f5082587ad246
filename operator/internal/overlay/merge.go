package overlay

import (
	"regexp"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// mergeKey takes over what a mapping elsewhere has.
const mergeKey = "<<"

// word is a key that every reader takes for the same text; YAML 1.1 takes some words for
// true and false, and so two of them for one key.
var (
	word    = regexp.MustCompile(`^[A-Za-z/._-][A-Za-z0-9/._-]*$`)
	boolean = regexp.MustCompile(`(?i)^(y|yes|n|no|on|off|true|false|null|~)$`)
)

// plainKey says whether every reader takes a key for what is written. A number is a key by its
// value, so that -1 and -1.0 are one. A tag counts to some readers only: for Kustomize
// !!merge alone makes a merge, of whatever key, and !!binary changes none.
func plainKey(key *kyaml.Node, merge bool) bool {
	if key.Kind != kyaml.ScalarNode || key.Style&kyaml.TaggedStyle != 0 {
		return false
	}
	if merge {
		return key.Tag == kyaml.MergeTag
	}
	return key.Tag == kyaml.NodeTagString && word.MatchString(key.Value) && !boolean.MatchString(key.Value)
}

// mergesAlike says whether every reader makes the same of the merge keys of a document, of
// which there are some, and of the keys that stand beside them: the merge comes first, so
// that what stands below it counts in YAML 1.1's reader, which goes by order, and in that of
// 1.2, which does not.
func mergesAlike(document *kyaml.Node) bool {
	some := false
	var alike func(n *kyaml.Node) bool
	alike = func(n *kyaml.Node) bool {
		for i, child := range n.Content {
			if n.Kind == kyaml.MappingNode && i%2 == 0 {
				merge := child.Value == mergeKey
				some = some || merge
				if merge && i > 0 || !plainKey(child, merge) {
					return false
				}
			}
			// What an alias stands for is looked at where it is written.
			if !alike(child) {
				return false
			}
		}
		return true
	}
	return alike(document) && some
}
