package policy

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/policies"
)

// sharedGroup holds functions that every group may use, and no rules.
const sharedGroup = "lib"

// included says of a group whose rules it has too, but for those that it has itself under
// the same file name: the restricted Pod Security Standard is all of baseline, with some
// of its rules replaced by stricter ones.
var included = map[string]string{"restricted": "baseline"}

// BuiltinGroups are the names that a Gate may write as builtin, sorted.
func BuiltinGroups() []string {
	groups := make([]string, 0, len(library()))
	for name := range library() {
		groups = append(groups, name)
	}
	sort.Strings(groups)
	return groups
}

// Builtin returns one group of the library with the functions it shares, already
// Summed; false when there is no such group.
func Builtin(group string) (gate.PolicySet, bool) {
	set, ok := library()[group]
	return set, ok
}

// library is read once. It panics only when the binary was built without its own files.
var library = sync.OnceValue(func() map[string]gate.PolicySet {
	byGroup := map[string]map[string]string{}
	err := fs.WalkDir(policies.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".rego" || strings.HasSuffix(name, "_test.rego") {
			return err
		}
		text, err := fs.ReadFile(policies.Files, name)
		if err != nil {
			return err
		}
		group := path.Dir(name)
		if byGroup[group] == nil {
			byGroup[group] = map[string]string{}
		}
		byGroup[group][name] = string(text)
		return nil
	})
	if err != nil {
		panic("policy: embedded library: " + err.Error())
	}
	shared := byGroup[sharedGroup]
	delete(byGroup, sharedGroup)
	sets := make(map[string]gate.PolicySet, len(byGroup))
	include(byGroup)
	for group, modules := range byGroup {
		for name, text := range shared {
			modules[name] = text
		}
		sets[group] = gate.PolicySet{Name: group, Modules: modules}.Summed()
	}
	return sets
})

// include adds to each group the rules of the one that it includes.
func include(byGroup map[string]map[string]string) {
	for group, other := range included {
		for name, text := range byGroup[other] {
			if _, own := byGroup[group][path.Join(group, path.Base(name))]; !own {
				byGroup[group][name] = text
			}
		}
	}
}

// Doubt says why no finding of the library can have this name although it begins as one; "" where
// one may.
func Doubt(name string) string {
	group, rule, several := strings.Cut(name, "/")
	set, ok := Builtin(group)
	switch rules := ruleNamesOf(set); {
	case !ok || several && slices.Contains(rules, rule):
		return ""
	case !several:
		return fmt.Sprintf("%q is a group of the library, and findings name its rules: write %s/%s or another of its rules", name, group, rules[0])
	default:
		if near, ok := nearest(rule, rules); ok {
			return fmt.Sprintf("%q is no rule of the library: did you mean %s/%s?", name, group, near)
		}
		return fmt.Sprintf("%q is no rule of the library: there are %s", name, strings.Join(rules, ", "))
	}
}

// ruleNamesOf a group, sorted: one for each of its files.
func ruleNamesOf(set gate.PolicySet) []string {
	var names []string
	for _, file := range sortedKeys(set.Modules) {
		if path.Dir(file) != sharedGroup {
			names = append(names, strings.ReplaceAll(strings.TrimSuffix(path.Base(file), ".rego"), "_", "-"))
		}
	}
	slices.Sort(names)
	return names
}
